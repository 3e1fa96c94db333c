#!/bin/sh
# usage: lint.sh ARGUMENT...
# tftf-lint with these arguments, from the caller's folder; built first where that has not been done. What the GitHub
# action and the pre-commit hook run.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
lint=$root/build/lint/bin/tftf-lint
if [ ! -x "$lint" ]; then
  (
    cd "$root"
    sh scripts/bootstrap.sh native
    mkdir -p build
    { cmake --preset release -B build/lint -DTFTF_TESTS=OFF && cmake --build build/lint --target tftf-lint; } \
      >build/lint.log 2>&1 || { tail -n 40 build/lint.log; exit 1; }
  ) >&2
fi
exec "$lint" "$@"
