#!/bin/sh
# the native host with ThreadSanitizer
. scripts/lib.sh
build tsan tftf_host_tests && run_tests tsan -R "^host\." -E "^host\.(comfort|examples|help|info_program|lint_options|side_files|target)$"
