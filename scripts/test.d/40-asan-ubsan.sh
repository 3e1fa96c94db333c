#!/bin/sh
# the same tests with AddressSanitizer and UBSan
. scripts/lib.sh
# The generated pages of docs/ are the native stage's, the fuzz targets the next one's.
build asan-ubsan tftf_unit_tests tftf_host_tests fuzz_targets && run_tests asan-ubsan -E '^(fuzz|docs)\.'
