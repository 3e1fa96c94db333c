#!/bin/sh
# npm package in Node: types, the native programs' answers and bytes, sources and sinks
. scripts/lib.sh
build release tftf tftf-lint && build wasm tftf_wasm || exit 1
install_packages wasm && npm --prefix wasm run --silent build &&
  npm --prefix wasm run --silent check || exit 1
status=0
npm --prefix wasm run --silent test -- --reporter=dot --reporter=json --outputFile.json=../build/test/package.json || status=1
node -e '
  const { numPassedTests: passed, numFailedTests: failed } = JSON.parse(require("fs").readFileSync("build/test/package.json"));
  console.log(`${passed} passed, ${failed} failed`);' || status=1
exit "$status"
