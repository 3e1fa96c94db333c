#!/bin/sh
# the seeds of every fuzz target, then five seconds of fuzzing each
exec sh scripts/fuzz.sh --bin build/asan-ubsan/bin "${TFTF_FUZZ_SECONDS:-5}"
