#!/bin/sh
# usage: test.sh [--list] [-v] [STAGE...]
# Runs all tests, or the stages whose names contain one of the given words. A stage is a script scripts/test.d/NN-NAME.sh,
# run from the top folder in the order of the numbers; its second line is its title. It prints `N passed, M failed` for
# the cases it ran (several such lines are added up; none counts as one case) and exits with another status than 0 when
# something is wrong. Output is kept in build/test/NAME.log and shown when a stage fails (with -v always).
# At the end stand the whole time and the slowest stage; the last line is the total, `N passed, M failed`; the exit status
# is 1 when anything failed.
set -u
cd "$(dirname "$0")/.." || exit 1

list=
verbose=
while [ $# -gt 0 ]; do
  case $1 in
    --list) list=yes ;;
    -v) verbose=yes ;;
    -*) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done

wanted() {
  [ $# -eq 1 ] && return 0
  name=$1
  shift
  for word; do
    case $name in *"$word"*) return 0 ;; esac
  done
  return 1
}

mkdir -p build/test
passed=0
failed=0
stages=0
slowest=
longest=-1
bad=
begin=$(date +%s)
for script in scripts/test.d/[0-9]*.sh; do
  name=$(basename "$script" .sh)
  wanted "$name" "$@" || continue
  if [ -n "$list" ]; then
    printf '%-18s %s\n' "$name" "$(sed -n '2s/^# //p' "$script")"
    continue
  fi
  stages=$((stages + 1))
  log=build/test/$name.log
  start=$(date +%s)
  status=0
  sh "$script" >"$log" 2>&1 </dev/null || status=$?
  counts=$(awk '/^[0-9]+ passed, [0-9]+ failed$/ {p += $1; f += $3; n++}
                END {if (!n) {p = s == 0; f = s != 0} else if (s != 0 && f == 0) f = 1; print p + 0, f + 0}' s="$status" "$log")
  p=${counts% *}
  f=${counts#* }
  word=ok
  if [ "$status" -ne 0 ] || [ "$f" -ne 0 ]; then word=FAIL; fi
  seconds=$(($(date +%s) - start))
  printf '%-4s %-18s %6d passed %4d failed %5d s\n' "$word" "$name" "$p" "$f" "$seconds"
  if [ "$seconds" -gt "$longest" ]; then
    longest=$seconds
    slowest=$name
  fi
  if [ "$word" = FAIL ]; then
    bad="$bad $name"
    echo "---- the end of $log"
    tail -n "${TFTF_TEST_TAIL:-80}" "$log"
    echo "----"
  elif [ -n "$verbose" ]; then
    cat "$log"
  fi
  passed=$((passed + p))
  failed=$((failed + f))
done
[ -n "$list" ] && exit 0

if [ "$stages" -eq 0 ]; then
  echo "no stage is called $*" >&2
  exit 2
fi
[ -n "$bad" ] && echo "failed:$bad"
printf '%d stages in %d s, the slowest %s in %d s\n' "$stages" $(($(date +%s) - begin)) "$slowest" "$longest"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
