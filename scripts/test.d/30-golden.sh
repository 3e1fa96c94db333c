#!/bin/sh
# bytes and reports of the reference implementations; random merges; keys of the JSON documents
status=0
goldens() { python3 tests/tools/goldens.py --bin build/release/bin "$@" || status=1; }

goldens --set safetensors
goldens --set tftf
goldens --set quant
goldens --set quant2
goldens --set experts
goldens --set adapters
python3 tests/tools/merge_random.py --bin build/release/bin --count 176 || status=1
python3 tests/tools/json_keys.py --bin build/release/bin || status=1
exit "$status"
