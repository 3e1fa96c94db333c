#!/bin/sh
# the same tests with AddressSanitizer and UBSan
. scripts/lib.sh
build asan-ubsan && run_tests asan-ubsan -E '^fuzz\.'
