# Sourced by the other scripts from the top folder: their common settings.

# Node.js and npm from build/tools, where bootstrap.sh had to install newer ones than the system's.
[ -d build/tools/node_modules/.bin ] && PATH=$PWD/build/tools/node_modules/.bin:$PATH
export PATH

mkdir -p build
jobs=$(nproc 2>/dev/null || echo 2)

# Configures and builds a preset: build PRESET [TARGET...]. Ninja's lines only when something fails.
build() {
  preset=$1
  shift
  cmake --preset "$preset" >"build/$preset.configure.log" 2>&1 || {
    tail -n 40 "build/$preset.configure.log"
    return 1
  }
  [ $# -eq 0 ] || set -- --target "$@"
  cmake --build --preset "$preset" -j "$jobs" "$@" >"build/$preset.build.log" 2>&1 || {
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating)|^ninja: build stopped' "build/$preset.build.log" | head -n 120
    return 1
  }
}

# Runs ctest of a preset and adds up Catch2's test cases: run_tests PRESET [CTEST OPTION...].
run_tests() {
  preset=$1
  shift
  status=0
  ctest --preset "$preset" -j "$jobs" "$@" || status=$?
  python3 tests/tools/count_cases.py "build/$preset/Testing/Temporary/LastTest.log" || status=1
  return "$status"
}

# Installs what a folder's lock file names, unless that has been done already.
install_packages() {
  stamp=$1/node_modules/.lock-file
  cmp -s "$1/package-lock.json" "$stamp" && return
  npm ci --prefix "$1" --no-audit --no-fund --loglevel=error >build/npm.log 2>&1 || { cat build/npm.log; return 1; }
  cp "$1/package-lock.json" "$stamp"
}
