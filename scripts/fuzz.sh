#!/bin/sh
# usage: fuzz.sh [--replay] [--bin FOLDER] [SECONDS] [TARGET...]
# Runs the fuzz targets (all, or those named) for SECONDS each, as many at a time as there are cores; with --replay
# only over the inputs that are there. Without --bin they are built first (preset fuzz).
# Seeds of NAME_fuzz: tests/fuzz/corpus/NAME, and what tests/fuzz/NAME_fuzz.args lists: one libFuzzer option or a file or
# folder of seeds (from the top folder) a line; build/fuzz/seeds/folders has the golden cases packed. New inputs go to
# build/fuzz/corpus, findings to build/fuzz/findings.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

bin=
limit=-max_total_time=10
while [ $# -gt 0 ]; do
  case $1 in
    --replay) limit=-runs=0 ;;
    --bin) bin=$2; shift ;;
    -*) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
case ${1:-} in
  [0-9]*) limit=-max_total_time=$1; shift ;;
esac
if [ -z "$bin" ]; then
  bin=build/fuzz/bin
  build fuzz
fi
if [ $# -eq 0 ]; then
  for target in "$bin"/*_fuzz; do
    [ -x "$target" ] && set -- "$@" "$(basename "$target")"
  done
fi
[ $# -gt 0 ] || { echo "no fuzz target in $bin" >&2; exit 1; }

logs=build/fuzz/logs
mkdir -p "$logs" build/fuzz/findings
[ -d build/fuzz/seeds/folders ] || python3 tests/tools/pack_folders.py build/fuzz/seeds/folders
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:allocator_may_return_null=1:detect_leaks=1"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:print_stacktrace=1"

# One target, in this shell's background: its log, and `ok` beside it when it ended well.
run_one() {
  name=$1
  rm -f "$logs/$name.ok"
  grown=build/fuzz/corpus/${name%_fuzz}
  mkdir -p "$grown"
  [ "$limit" = -runs=0 ] && grown=
  seeds=
  [ -d "tests/fuzz/corpus/${name%_fuzz}" ] && seeds=tests/fuzz/corpus/${name%_fuzz}
  [ -f "tests/fuzz/$name.args" ] && seeds="$seeds $(grep -v '^#' "tests/fuzz/$name.args" | tr '\n' ' ')"
  # shellcheck disable=SC2086  # lists of words
  "$bin/$name" "$limit" -timeout=25 -rss_limit_mb=3000 -entropic=0 -artifact_prefix="build/fuzz/findings/$name-" -print_final_stats=1 \
    $grown $seeds >"$logs/$name.log" 2>&1 && : >"$logs/$name.ok"
}

running=0
for name; do
  run_one "$name" &
  running=$((running + 1))
  if [ "$running" -ge "$jobs" ]; then
    wait
    running=0
  fi
done
wait

passed=0
failed=0
for name; do
  log=$logs/$name.log
  if [ -f "$logs/$name.ok" ]; then
    passed=$((passed + 1))
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf '%-28s %s runs, %s\n' "$name" "${runs:-0}" "$(grep -E 'cov: ' "$log" | tail -n 1 | sed 's/.*\(cov: [0-9]*\).*/\1/')"
  else
    failed=$((failed + 1))
    echo "$name: FAILED"
    tail -n 60 "$log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
