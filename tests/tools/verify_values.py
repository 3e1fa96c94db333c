#!/usr/bin/env python3
"""Checks `tftf stats` and `tftf diff` against values computed here, without any code of the project.

    verify_values.py TFTF MODEL...
    verify_values.py TFTF --diff LEFT RIGHT

Models are files or folders of F64, F32, F16, BF16, F8_E4M3, F8_E8M0, integer and BOOL tensors; with F8_E4M3 weights
beside `weight_scale_inv` (F32) or `scale` (F8_E8M0) grids of 128 x 128 blocks `--logical` is checked too. Sums are
exact (math.fsum). Prints what was compared, or the first difference, then with exit status 1.
"""
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

BLOCK = 128
FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U64": "Q", "U32": "I",
           "U16": "H", "U8": "B", "BOOL": "?"}


def e4m3(code):
    sign, exponent, mantissa = -1.0 if code & 0x80 else 1.0, code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return math.nan
    return sign * (mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10))


E4M3 = [e4m3(code) for code in range(256)]


def decode(dtype, raw):
    if dtype == "BF16":
        words = struct.unpack(f"<{len(raw) // 2}H", raw)
        return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(word << 16 for word in words))))
    if dtype == "F8_E4M3":
        return [E4M3[code] for code in raw]
    if dtype == "F8_E8M0":
        return [math.nan if code == 255 else 2.0 ** (code - 127) for code in raw]
    letter = FORMATS[dtype]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(letter)}{letter}", raw))


def load(model):
    """name -> (dtype, shape, values) of a file or of all .safetensors files of a folder."""
    tensors = {}
    paths = sorted(Path(model).glob("*.safetensors")) if Path(model).is_dir() else [Path(model)]
    for path in paths:
        raw = path.read_bytes()
        length = struct.unpack_from("<Q", raw)[0]
        header = json.loads(raw[8:8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            if entry["dtype"] in FORMATS or entry["dtype"] in ("BF16", "F8_E4M3", "F8_E8M0"):
                tensors[name] = entry["dtype"], entry["shape"], decode(entry["dtype"], raw[begin:end])
    return tensors


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16(value):
    word = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", word + 0x7FFF + (word >> 16 & 1) & 0xFFFF0000))[0]


def grid_of(name, tensors):
    """Name of the scales of a block FP8 weight."""
    for scales in (name + "_scale_inv", name[:-len("weight")] + "scale"):
        if name.endswith("weight") and tensors[name][0] == "F8_E4M3" and scales in tensors:
            return scales
    return None


def logical(tensors):
    """Weights of block FP8 as F32 values (BF16 with scales F8_E8M0), their scales left out."""
    grids = {name: grid_of(name, tensors) for name in tensors}
    out = {}
    for name, (dtype, shape, values) in tensors.items():
        if name in grids.values():
            continue
        if grids[name]:
            scale_dtype, (_, across), scales = tensors[grids[name]]
            columns, rounded = shape[1], bf16 if scale_dtype == "F8_E8M0" else f32
            values = [rounded(value * scales[i // columns // BLOCK * across + i % columns // BLOCK])
                      for i, value in enumerate(values)]
        out[name] = dtype, shape, values
    return out


def near(a, b):
    return a == b or abs(a - b) <= 1e-12 * max(abs(a), abs(b))


def run(tftf, *arguments):
    done = subprocess.run([tftf, *arguments, "--json", "--no-progress"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def fail(what, got, want):
    sys.exit(f"{what}: got {got}, expected {want}")


def check_tensor(got, values, bins):
    finite = [float(value) for value in values if math.isfinite(value)]
    want = {"count": len(values), "nan": sum(value != value for value in values),
            "infinite": sum(abs(value) == math.inf for value in values), "zero": sum(value == 0 for value in values),
            "negative": sum(value < 0 for value in values)}
    if finite:
        low, high = min(finite), max(finite)
        sums = {}
        if high - low < 1e150:  # squares that a double holds
            mean = math.fsum(finite) / len(finite)
            sums = {"mean": mean, "std": math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / len(finite))}
        for key, value in sums.items():
            if not near(got[key], value) and abs(got[key] - value) > 1e-12 * max(abs(low), abs(high)):
                fail(f"{got['name']} {key}", got[key], value)
        want.update(min=low, max=high)
        if low < high:
            counts = [0] * bins
            for value in finite:
                counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
            want["histogram"] = {"low": low, "high": high, "counts": counts}
    else:
        want.update(min=None, max=None, mean=None, std=None, histogram=None)
    for key, value in want.items():
        # Integers beyond 2^53 are text.
        if (float(got[key]) if isinstance(got[key], str) else got[key]) != value:
            fail(f"{got['name']} {key}", got[key], value)


def check_statistics(tftf, model):
    tensors, bins = load(model), 10
    for option, expected in (([], tensors), (["--logical"], logical(tensors))):
        status, document = run(tftf, "stats", str(model), "--histogram", str(bins), *option)
        if status != 0:
            fail(model, status, 0)
        seen = {tensor["name"]: tensor for tensor in document["tensors"]}
        for name, (dtype, _, values) in expected.items():
            if dtype != "BOOL":
                check_tensor(seen[name], values, bins)
        print(f"{model}: {len(expected)} tensors{' dequantised' if option else ''}, "
              f"{sum(len(values) for _, _, values in expected.values())} values")


def check_difference(tftf, left, right):
    a, b = logical(load(left)), logical(load(right))
    _, document = run(tftf, "diff", "--values", str(left), str(right))
    listed = {tensor["name"]: tensor for tensor in document["tensors"]}
    compared = 0
    for name in a.keys() & b.keys():
        x, y = a[name][2], b[name][2]
        if a[name][1] != b[name][1] or (name not in listed and x == y):
            continue
        if name not in listed:
            fail(f"{name}", "same", "a difference")
        if a[name][0] == "F8_E4M3" and b[name][0] == "BF16":  # what dequantising to BF16 gives
            x = [bf16(value) for value in x]
        pairs = [(float(v), float(w)) for v, w in zip(x, y) if math.isfinite(v) and math.isfinite(w)]
        differences = [abs(v - w) for v, w in pairs]
        got = listed[name]["distance"]
        if got is None:  # bytes decided
            if any(differences):
                fail(f"{name} distance", got, max(differences))
            compared += 1
            continue
        want = {"differing": sum(v != w and not (v != v and w != w) for v, w in zip(x, y)),
                "max_abs": max(differences, default=0.0),
                "mean_abs": math.fsum(differences) / max(1, len(differences))}
        norm = math.sqrt(math.fsum(v * v for v, _ in pairs))
        if norm > 0:
            want["relative_l2"] = math.sqrt(math.fsum(d * d for d in differences)) / norm
        for key, value in want.items():
            if not near(got[key], value):
                fail(f"{name} {key}", got[key], value)
        compared += 1
    print(f"{left} and {right}: {compared} distances")


def main():
    tftf, arguments = sys.argv[1], sys.argv[2:]
    if arguments[0] == "--diff":
        check_difference(tftf, *arguments[1:])
    else:
        for model in arguments:
            check_statistics(tftf, model)


if __name__ == "__main__":
    main()
