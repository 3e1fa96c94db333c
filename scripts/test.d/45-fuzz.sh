#!/bin/sh
# ten seconds of fuzzing per target
exec sh scripts/fuzz.sh --bin build/asan-ubsan/bin "${TFTF_FUZZ_SECONDS:-10}"
