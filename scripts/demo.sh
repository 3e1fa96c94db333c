#!/bin/sh
# usage: demo.sh [--no-serve]
# Builds the tools and shows them on bundled samples: a lint report with findings, what a checkpoint is, its FP8 weights
# turned into BF16, and the proof that the result is right. Then builds the page, serves it on this machine and prints its
# address (--no-serve: only builds it).
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

serve=yes
case ${1:-} in
  --no-serve) serve= ;;
  '') ;;
  *) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
esac

say() { printf '\n# %s\n' "$1"; }

# Shows a command and runs it; its exit status must be the one named first.
show() {
  expected=$1
  shift
  printf '$ %s\n' "$*"
  status=0
  "$@" || status=$?
  [ "$status" -eq "$expected" ] || { echo "demo.sh: exit status $status instead of $expected" >&2; exit 1; }
}

sh scripts/bootstrap.sh native wasm
echo "building (build/release)"
build release tftf tftf-lint
PATH=$PWD/build/release/bin:$PATH
sample=docs/sample/qwen3-tiny-fp8
out=build/demo/qwen3-tiny-bf16
rm -rf build/demo
mkdir -p build/demo

say "A damaged file: what is wrong with it, and where"
show 1 tftf-lint tests/golden/safetensors/cases/multi-b/model.safetensors

say "A sharded checkpoint: what it is"
show 0 tftf info --fold $sample

say "Its FP8 weights as BF16"
show 0 tftf dequant-fp8 -i $sample -o $out

say "The result is a sound checkpoint, and every value is right"
show 0 tftf-lint $out
show 0 python3 tests/tools/verify_dequant.py $sample $out

say "The same in the browser: nothing leaves this machine"
echo "building (build/web)"
sh scripts/page.sh
if [ -n "$serve" ]; then
  echo "open the address below; Ctrl-C ends it"
  exec node web/server.mjs
fi
