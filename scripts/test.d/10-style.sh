#!/bin/sh
# formatting, direction of includes, names that folders share
status=0
sh scripts/format.sh --check || status=1
python3 tests/tools/include_direction.py || status=1
python3 tests/tools/unique_names.py || status=1

# Outside a clone the check must say that it cannot check, rather than find nothing wrong with no files.
outside=$(mktemp -d)
mkdir "$outside/scripts"
cp scripts/format.sh "$outside/scripts/"
if GIT_CEILING_DIRECTORIES=$outside sh "$outside/scripts/format.sh" --check >"$outside/said" 2>&1 ||
  ! grep -q 'needs git and a clone' "$outside/said"; then
  echo "format.sh --check outside a clone:"
  cat "$outside/said"
  status=1
fi
rm -rf "$outside"
exit "$status"
