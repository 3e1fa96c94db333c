#!/usr/bin/env python3
"""Writes how far every preset of compressed-tensors takes a small model from what it was.

    ct_errors.py --bin DIR [--page docs/compressed-tensors.md]

Quantises a matrix of 512 x 1024 BF16 values (normal, of deviation 0.02, with one in a thousand ten times as large; a seed of
their own) with each preset, dequantises it, and has `tftf diff --values` say the difference. The table is printed, or put
between the marks of the page. Needs only Python 3.9 or later.
"""
import argparse
import json
import random
import re
import struct
import subprocess
import tempfile
from pathlib import Path

PRESETS = ["W2A16", "W3A16", "W4A16", "W4A16_ASYM", "W5A16", "W6A16", "W7A16", "W8A16", "W8A8", "FP8", "FP8_DYNAMIC",
           "FP8_BLOCK", "NVFP4A16", "NVFP4", "MXFP4A16", "MXFP4", "MXFP8A16", "MXFP8", "INT8", "W2A4", "W2A8", "W3A4",
           "W3A8", "W4A4", "W4A8", "W4AFP8", "W5A8", "W6A8", "W7A8"]
ROWS, COLUMNS, MODULE = 512, 1024, "model.layers.0.mlp.down_proj"
BEGIN, END = "<!-- errors of presets: tests/tools/ct_errors.py -->", "<!-- end of errors -->"


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def write(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors))


def stored_bytes(folder):
    total = 0
    for file in folder.glob("*.safetensors"):
        raw = file.read_bytes()
        length = struct.unpack_from("<Q", raw)[0]
        for name, entry in json.loads(raw[8:8 + length]).items():
            if name != "__metadata__":
                total += entry["data_offsets"][1] - entry["data_offsets"][0]
    return total


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", type=Path, required=True)
    ap.add_argument("--page", type=Path)
    a = ap.parse_args()
    tftf = (a.bin / "tftf").resolve()
    draw = random.Random(20)
    values = [bf16(draw.gauss(0, 0.02) * (10 if draw.random() < 0.001 else 1)) for _ in range(ROWS * COLUMNS)]
    lines = ["| preset | format | bits per weight | relative L2 | SQNR, dB | largest difference |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="tftf-errors-") as work:
        work = Path(work)
        model, statics = work / "model", work / "static.safetensors"
        model.mkdir()
        write(model / "model.safetensors",
              [(MODULE + ".weight", "BF16", [ROWS, COLUMNS], struct.pack(f"<{len(values)}H", *values))])
        (model / "config.json").write_text('{"torch_dtype": "bfloat16"}')
        # Presets with static activations need scales of a calibration, which do not touch the weights.
        write(statics, [(MODULE + ".input_global_scale", "F32", [1], struct.pack("<f", 448.0)),
                        (MODULE + ".input_scale", "BF16", [1], struct.pack("<H", bf16(1.0)))])
        seen = {}
        for preset in PRESETS:
            coded, back = work / preset, work / (preset + "-back")
            more = ["--static-qparams", statics] if preset in ("FP8", "NVFP4") else []
            subprocess.run([tftf, "quantize", "-q", "--no-progress", "--to", "compressed-tensors", "--scheme", preset,
                            *more, "-i", model, "-o", coded], check=True)
            subprocess.run([tftf, "dequant", "-q", "--no-progress", "--dtype", "bfloat16", "-i", coded, "-o", back],
                           check=True)
            told = subprocess.run([tftf, "diff", "--values", "--json", "--no-progress", model, back], capture_output=True)
            figures = json.loads(told.stdout)["tensors"][0]["distance"]
            section = json.loads((coded / "config.json").read_text())["quantization_config"]
            bits = stored_bytes(coded) * 8 / len(values)
            row = (section["format"], f"{bits:.2f}", f"{figures['relative_l2']:.5f}", f"{figures['sqnr_db']:.1f}",
                   f"{figures['max_abs']:.5f}")
            # Presets that differ in their activations alone have one row.
            seen.setdefault(row, []).append(preset)
        for row, presets in seen.items():
            lines.append(f"| {', '.join(presets)} | {' | '.join(row)} |")
    table = "\n".join(lines) + "\n"
    if a.page is None:
        print(table, end="")
        return
    text = a.page.read_text()
    a.page.write_text(re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), f"{BEGIN}\n{table}{END}", text, flags=re.S))


if __name__ == "__main__":
    main()
