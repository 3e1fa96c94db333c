#!/bin/sh
# bytes and reports of the reference implementations
status=0
goldens() { python3 tests/tools/goldens.py --bin build/release/bin "$@" || status=1; }

goldens --set safetensors
goldens --set tftf
exit "$status"
