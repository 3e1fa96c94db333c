#!/usr/bin/env python3
"""Checks that files compiled for a newer instruction set define no weak symbols.

    simd_symbols.py BUILD_FOLDER...

An inline function or template that such a file emits may be the copy that the linker keeps for the whole program,
which then fails on a processor without that instruction set. Every core/src/simd file named after a set (avx2.cpp,
avx2_NAME.cpp, NAME_avx2.cpp) is compiled once more without optimisation, which hides nothing. Prints `N passed, M failed` (files); exit status 1 when any fails.
"""
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SETS = re.compile(r"/core/src/simd/(?:[^/]*_)?(?:avx2|avx512|neon|wasm128)(?:_[^/]*)?\.cpp$")


def weak_symbols(entry, scratch):
    """Demangled names of the weak symbols that the file of a compile_commands.json entry defines."""
    command = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
    command[command.index("-o") + 1] = scratch
    subprocess.run(command + ["-O0", "-g0"], cwd=entry["directory"], check=True)
    # llvm-nm reads wasm objects too, binutils' nm only native ones.
    nm = shutil.which("llvm-nm-14") or "nm"
    listing = subprocess.run([nm, "-C", scratch], check=True, capture_output=True, text=True).stdout
    # DW.ref.*: the pointer to the exception personality, data.
    return [match[1] for match in re.finditer(r"^[0-9a-fA-F]+ [WVu] (?!DW\.ref\.)(.*)$", listing, re.M)]


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for build in sys.argv[1:]:
            for entry in json.loads((Path(build) / "compile_commands.json").read_text(encoding="utf-8")):
                if not SETS.search(entry["file"]):
                    continue
                found = weak_symbols(entry, str(Path(folder) / "simd.o"))
                name = "core/src/simd/" + Path(entry["file"]).name
                for symbol in found:
                    print(f"{name}: weak symbol {symbol}")
                failed += bool(found)
                passed += not found
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
