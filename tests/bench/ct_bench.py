#!/usr/bin/env python3
"""Measures compressed-tensors against `cp` and prints a table; both sides end with everything on the disk.

    ct_bench.py [--bin build/release/bin] [--work FOLDER] [--runs 5] [--size MIB] [--only NAME,…] [--json FILE]

    quantise a BF16 model of --size MiB, against cp of the model (limit 1.0):
        w4a16  fp8-dynamic  nvfp4
    dequantise to as many MiB of BF16, against cp of the output (limit 0.9):
        int4  fp8-channel  fp4  sparse24

Peak memory may be 32 MiB. Ratios of medians of alternating runs, as in bench.py. Exit status 1 when a limit is passed.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench import against_cp, clean, warm, write_plain_model  # noqa: E402

QUANTISE = {"w4a16": "W4A16", "fp8-dynamic": "FP8_DYNAMIC", "nvfp4": "NVFP4A16"}
DEQUANTISE = {"int4": "W4A16", "fp8-channel": "FP8_DYNAMIC", "fp4": "NVFP4A16", "sparse24": None}
LARGEST_RSS = 32
SPARSE = {"quantization_config": {"quant_method": "compressed-tensors", "version": "0.14.0", "sparsity_config": {
    "format": "sparse-24-bitmask", "sparsity_structure": "2:4", "global_sparsity": 0.5, "targets": ["Linear"]}}}


def write_sparse_model(folder, tensors, rows=4096, columns=4096):
    """BF16 weights of which two of four are zero."""
    folder.mkdir()
    values = bytearray(os.urandom(2 * rows * columns))
    for i in range(1, len(values), 2):
        values[i] = 0x3C | values[i] & 0x80
    for i in range(0, len(values), 8):
        values[i:i + 4] = b"\0\0\0\0"
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for t in range(tensors):
        header[f"model.layers.{t}.mlp.up_proj.weight"] = {"dtype": "BF16", "shape": [rows, columns],
                                                          "data_offsets": [at, at + len(values)]}
        at += len(values)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _ in range(tensors):
            f.write(values)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "torch_dtype": "bfloat16"}))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    ap.add_argument("--work", type=Path, help="where the files are made (default: a folder below the temporary one)")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--size", type=int, default=1024, help="MiB of BF16")
    ap.add_argument("--threads", type=int, help="passed on to the tool")
    ap.add_argument("--only", default=",".join([*QUANTISE, *DEQUANTISE]))
    ap.add_argument("--json", type=Path)
    a = ap.parse_args()
    only = a.only.split(",")
    tftf = (a.bin / "tftf").resolve()
    common = ["--no-progress", "-q"] + (["--threads", str(a.threads)] if a.threads else [])
    quantize = [tftf, "quantize", *common, "--to", "compressed-tensors"]
    dequant = [tftf, "dequant", "--dtype", "bfloat16", *common]
    results, passed = {}, []
    with tempfile.TemporaryDirectory(prefix="tftf-bench-", dir=a.work) as work:
        work = Path(work)
        model, coded, out = work / "model", work / "coded", work / "out"
        write_plain_model(model, a.size // 32)
        for name, preset in QUANTISE.items():
            if name in only:
                warm(model)
                results[name] = against_cp([*quantize, "--scheme", preset, "-i", model, "-o"], model, out, a.runs)
        for name, preset in DEQUANTISE.items():
            if name not in only:
                continue
            scheme = preset
            if preset is None:
                clean(model)
                write_sparse_model(model, a.size // 32)
                scheme = work / "scheme.json"
                scheme.write_text(json.dumps(SPARSE))
            subprocess.run([*quantize, "--scheme", scheme, "-i", model, "-o", coded], check=True)
            warm(coded)
            results[name] = against_cp([*dequant, "-i", coded, "-o"], None, out, a.runs)
            clean(coded)
    print(f"{'':16}{'seconds':>9}{'cp':>9}{'ratio':>8}{'RSS MiB':>9}")
    for name, row in results.items():
        print(f"{name:16}{row['seconds']:>9}{row['cp_seconds']:>9}{row['ratio']:>8}{row['rss_mib']:>9}")
        most = 1.0 if name in QUANTISE else 0.9
        if row["ratio"] > most:
            passed.append(f"{name}: ratio {row['ratio']} > {most}")
        if row["rss_mib"] > LARGEST_RSS:
            passed.append(f"{name}: rss_mib {row['rss_mib']} > {LARGEST_RSS}")
    if a.json:
        a.json.write_text(json.dumps(results, indent=2) + "\n")
    for failure in passed:
        print(f"limit passed: {failure}")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
