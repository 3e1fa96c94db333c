#!/bin/sh
# bytes and reports of the reference implementations
status=0
goldens() { python3 tests/tools/goldens.py --bin build/release/bin "$@" || status=1; }

goldens --set safetensors
# What merges adapters is not there yet.
goldens --set tftf --group cli --group passthrough --group malformed --group info --group validate --group dequant \
  --group run --except dq-lora --except dq-lora-dry --except run-chain --except run-dcp --except run-two-lora
exit "$status"
