#!/bin/sh
# formatting, direction of includes
status=0
sh scripts/format.sh --check || status=1
python3 tests/tools/include_direction.py || status=1
exit "$status"
