#!/bin/sh
# usage: page.sh
# Builds the page into build/web: first the module and the package where that has not been done, then npm's packages when
# the lock file has changed, then the page itself.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
[ -f build/wasm/package/dist/index.js ] || build wasm
install_packages web
npm --prefix web run --silent build >build/page.log 2>&1 || { cat build/page.log; exit 1; }
