#!/bin/sh
# usage: page.sh
# Builds the page into build/web, and before it the module and the package (build/wasm/package) that it is made of.
set -eu
cd "$(dirname "$0")/.."
sh scripts/bootstrap.sh wasm
. scripts/lib.sh

# npm_build FOLDER
npm_build() {
  install_packages "$1"
  npm --prefix "$1" run --silent build >"build/$1.npm.log" 2>&1 || { cat "build/$1.npm.log"; exit 1; }
}

build wasm tftf_wasm
npm_build wasm
npm_build web
