#!/bin/sh
# usage: format.sh [--check]
# Formats the C++ files of the working tree, or names those that need it and exits with status 1.
set -eu
cd "$(dirname "$0")/.."
mode=-i
case ${1:-} in
  --check) mode='--dry-run -Werror' ;;
  '') ;;
  *) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
esac
format=clang-format-14
command -v $format >/dev/null || format=clang-format
# shellcheck disable=SC2086  # two words
git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.h' |
  xargs -0 -r -n 24 -P "$(nproc 2>/dev/null || echo 2)" $format $mode --style=file
