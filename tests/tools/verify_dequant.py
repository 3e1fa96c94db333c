#!/usr/bin/env python3
"""Compares a dequantised checkpoint with its block FP8 source, value by value, without any code of the project.

    verify_dequant.py SOURCE RESULT

Every F8_E4M3 weight of SOURCE must be in RESULT as BF16: code times the scale of its 128 x 128 block in F32, rounded
to nearest even; every other tensor but the scales must be there unchanged; nothing else. Prints what was compared,
or the first difference, then with exit status 1.
"""
import json
import struct
import sys
from pathlib import Path

BLOCK = 128


def load(folder):
    """name -> (dtype, shape, bytes) of all .safetensors files of a folder."""
    tensors = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        raw = path.read_bytes()
        length = struct.unpack_from("<Q", raw)[0]
        header = json.loads(raw[8:8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = entry["dtype"], entry["shape"], raw[begin:end]
    return tensors


def e4m3(code):
    sign, exponent, mantissa = -1.0 if code & 0x80 else 1.0, code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return float("nan")
    return sign * (mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10))


def to_bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def dequantised(weight, scales):
    _, (rows, columns), codes = weight
    _, (_, across), raw = scales
    scale = struct.unpack(f"<{len(raw) // 4}f", raw)
    # The product of a float with four significant bits and one with 24 is exact in a double; packing as float rounds once.
    tables = [struct.pack("<256H", *(to_bf16(e4m3(code) * s) for code in range(256))) for s in scale]
    out = bytearray()
    for row in range(rows):
        for column in range(columns):
            code = codes[row * columns + column]
            out += tables[row // BLOCK * across + column // BLOCK][2 * code:2 * code + 2]
    return bytes(out)


def main():
    source, result = load(sys.argv[1]), load(sys.argv[2])
    expected = {}
    values = 0
    for name, tensor in source.items():
        if tensor[0] == "F8_E4M3":
            expected[name] = "BF16", tensor[1], dequantised(tensor, source[name + "_scale_inv"])
            values += len(tensor[2])
        elif not name.endswith(".weight_scale_inv"):
            expected[name] = tensor
    for name in sorted(expected.keys() | result.keys()):
        if expected.get(name) != result.get(name):
            print(f"{name}: {'missing' if name not in result else 'not expected' if name not in expected else 'differs'}")
            return 1
    print(f"{values} dequantised values and {len(expected)} tensors are as computed independently")
    return 0


if __name__ == "__main__":
    sys.exit(main())
