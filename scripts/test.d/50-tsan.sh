#!/bin/sh
# the native host with ThreadSanitizer
. scripts/lib.sh
build tsan tftf_host_tests && run_tests tsan -R '^host\.'
