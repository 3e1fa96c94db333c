#!/bin/sh
# usage: bootstrap.sh [native] [wasm] [check] [browser]      (nothing named: all of them)
# Installs what a bare Debian 12 lacks to build and test: from the machine's own package sources, and Node.js from the
# npm registry into build/tools where the installed one is too old. Quiet and quick when nothing is missing. Without
# root it uses sudo when that asks no password, and else names the packages and exits with status 1.
#   native   the executables         wasm      the module, the npm package and the page
#   check    tests, sanitizers, fuzzing, formatting         browser   the page's tests
set -eu
cd "$(dirname "$0")/.."
root=$PWD
[ $# -gt 0 ] || set -- native wasm check browser

missing=
# need PACKAGE FILE: FILE (a command without a slash, or a path with * in it) comes with PACKAGE.
need() {
  case $2 in
    /*) for file in $2; do [ -e "$file" ] && return; done ;;
    *) command -v "$2" >/dev/null 2>&1 && return ;;
  esac
  missing="$missing $1"
}
# True when $1 is a version of at least $2.$3.
at_least() {
  v=${1#v}
  major=${v%%.*} rest=${v#*.}
  minor=${rest%%.*}
  [ "$major" -gt "$2" ] || { [ "$major" -eq "$2" ] && [ "$minor" -ge "$3" ]; }
}

node=
for part; do
  case $part in
    native)
      need g++ g++
      need cmake cmake
      need ninja-build ninja
      need python3 python3
      need nlohmann-json3-dev /usr/include/nlohmann/json.hpp
      need libpcre2-dev /usr/include/pcre2.h
      need libxxhash-dev /usr/include/xxhash.h
      need libssl-dev /usr/include/openssl/ssl.h
      need libeigen3-dev /usr/include/eigen3/Eigen/Core
      need catch2 /usr/include/catch2/catch.hpp
      ;;
    wasm)
      need emscripten em++
      need nlohmann-json3-dev /usr/include/nlohmann/json.hpp
      need libxxhash-dev /usr/include/xxhash.h
      need nodejs node
      need npm npm
      need ca-certificates /etc/ssl/certs/ca-certificates.crt
      node=yes
      ;;
    check)
      need git git
      need clang-14 clang++-14
      need libclang-rt-14-dev '/usr/lib/llvm-14/lib/clang/14*/lib/linux/libclang_rt.fuzzer-*.a'
      need llvm-14 /usr/lib/llvm-14/bin/llvm-symbolizer
      need clang-format-14 clang-format-14
      need clang-tidy-14 clang-tidy-14
      need binutils nm
      ;;
    browser)
      need chromium /usr/bin/chromium
      need firefox-esr /usr/bin/firefox-esr
      ;;
    *)
      echo "usage: sh scripts/bootstrap.sh [native] [wasm] [check] [browser]" >&2
      exit 2
      ;;
  esac
done

if [ -n "$missing" ]; then
  as_root=
  if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo -n"
    if ! sudo -n true 2>/dev/null; then
      echo "Packages are missing; install them with:" >&2
      echo "  apt-get install --no-install-recommends$missing" >&2
      exit 1
    fi
  fi
  echo "installing$missing"
  log=$(mktemp)
  # shellcheck disable=SC2086  # a list of packages, and a command of two words
  if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "bootstrap.sh: apt-get could not install$missing (all of it: $log)" >&2
    exit 1
  fi
  rm -f "$log"
fi

if [ -n "$node" ]; then
  # Vite and Vitest need Node.js 20.19; the lock files need npm 10. Debian 12 has 18 and 9.
  tools=$root/build/tools
  PATH=$tools/node_modules/.bin:$PATH
  wanted=
  at_least "$(node --version)" 20 19 || wanted=node@20
  case $(npm --version) in 10.*) ;; *) wanted="$wanted npm@10" ;; esac
  if [ -n "$wanted" ]; then
    echo "installing $wanted into build/tools"
    mkdir -p "$tools"
    # shellcheck disable=SC2086  # two words
    npm install --prefix "$tools" --no-audit --no-fund --loglevel=error $wanted >"$tools/npm.log" 2>&1 || {
      cat "$tools/npm.log" >&2
      exit 1
    }
  fi
  sh scripts/pcre2_source.sh "$root/build/deps"
fi
