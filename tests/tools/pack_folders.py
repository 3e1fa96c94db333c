#!/usr/bin/env python3
"""Packs golden cases into seeds for the fuzz targets that take a folder: pack_folders.py OUT [FOLDER...]

Each folder (default: the linter's cases and the transformer's inputs) becomes one file in OUT, in the form that
tests/fuzz/packed_folder.h reads. Files over 16 KiB in all are left out.
"""
import sys
from pathlib import Path

LIMIT = 16384


def pack(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return b"\x1c\x1c\x1c\x1c".join(str(path.relative_to(folder)).encode() + b"\x1d" + path.read_bytes() for path in files)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    root = Path(__file__).resolve().parents[1] / "golden"
    folders = [Path(name) for name in sys.argv[2:]] or [root / "safetensors/cases", root / "tftf/inputs"]
    for parent in folders:
        for folder in sorted(path for path in parent.iterdir() if path.is_dir()):
            seed = pack(folder)
            if 0 < len(seed) <= LIMIT:
                (out / folder.name).write_bytes(seed)


if __name__ == "__main__":
    main()
