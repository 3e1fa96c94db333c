#!/bin/sh
# every file operation of every writing command fails once: nothing incomplete is left, and the repeat completes
exec python3 tests/faults/faults.py --bin build/release/bin
