#!/bin/sh
# usage: tidy.sh [--changed | FILE...]
# clang-tidy (.clang-tidy) on the sources of core, cli and wasm, on those that differ from the branch main, or on the
# files named. A few seconds a file, so that test.sh leaves it out.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
case ${1:-} in
  --changed)
    shift
    # shellcheck disable=SC2046  # file names of ours have no spaces
    set -- $(git diff --name-only --diff-filter=d "$(git merge-base HEAD main)" -- 'core/*.cpp' 'cli/*.cpp')
    [ $# -gt 0 ] || exit 0
    ;;
  -*) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
  '')
    # shellcheck disable=SC2046
    set -- $(git ls-files 'core/*.cpp' 'cli/*.cpp')
    ;;
esac
# The clang build's compile commands: clang-tidy does not know GCC's options.
cmake --preset asan-ubsan >build/asan-ubsan.configure.log 2>&1 || { cat build/asan-ubsan.configure.log; exit 1; }
printf '%s\n' "$@" | xargs -n 1 -P "$jobs" clang-tidy-14 -p build/asan-ubsan --quiet 2>build/tidy.stderr
