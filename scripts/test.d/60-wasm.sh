#!/bin/sh
# wasm build; unit tests in Node
. scripts/lib.sh
build wasm && run_tests wasm
