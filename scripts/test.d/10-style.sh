#!/bin/sh
# formatting, direction of includes, names that folders share
status=0
sh scripts/format.sh --check || status=1
python3 tests/tools/include_direction.py || status=1
python3 tests/tools/unique_names.py || status=1
exit "$status"
