#!/bin/sh
# release build; unit tests and tests of the native host
. scripts/lib.sh
build release && run_tests release
