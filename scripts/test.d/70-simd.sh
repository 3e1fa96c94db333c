#!/bin/sh
# no vector kernel emits code that another file could pick up
exec python3 tests/tools/simd_symbols.py build/release build/wasm
