#!/bin/sh
# the same tests with AddressSanitizer and UBSan; the seeds of every fuzz target
. scripts/lib.sh
build asan-ubsan && run_tests asan-ubsan
