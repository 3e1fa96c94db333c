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
# The files are those git knows or would add. Without it the list is empty, which must not pass for "all is well".
files=$(mktemp)
trap 'rm -f "$files"' EXIT
git ls-files -z --cached --others --exclude-standard -- '*.cpp' '*.h' >"$files" 2>/dev/null || : >"$files"
if [ ! -s "$files" ]; then
  echo "format.sh: cannot tell which files to format: this needs git and a clone of the repository" >&2
  exit 1
fi
# shellcheck disable=SC2086  # two words
xargs -0 -n 24 -P "$(nproc 2>/dev/null || echo 2)" $format $mode --style=file <"$files"
