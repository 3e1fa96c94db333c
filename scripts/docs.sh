#!/bin/sh
# Writes the generated pages of docs/ anew: rules, error codes, element types (tests/tools/docs).
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
build release tftf_docs
exec build/release/bin/tftf_docs docs
