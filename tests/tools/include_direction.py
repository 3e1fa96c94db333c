#!/usr/bin/env python3
"""Checks that includes point only down the layers, and that the core stays free of platforms.

    include_direction.py [ROOT]

Prints each include that points the wrong way as FILE:LINE, and `N passed, M failed` (files). Exit status 1 when any does.
"""
import os
import re
import sys
from pathlib import Path

# A file may include its own layer and those of a lower rank; layers of one rank don't know each other.
RANK = {
    "base": 0, "simd": 1, "diagnostic": 2, "container": 3, "checkpoint": 4, "quant": 5, "plan": 6, "adapter": 7,
    "transform": 8, "lint": 8, "inspect": 8, "command": 9, "native": 10, "cli": 11, "wasm": 11,
}
HOSTS = {"native", "cli", "wasm"}
# The core does no input or output, starts no thread, reads no clock and no environment.
PLATFORM = re.compile(
    r"^(iostream|fstream|cstdio|stdio\.h|filesystem|thread|mutex|shared_mutex|condition_variable|future|stop_token|chrono|"
    r"ctime|time\.h|locale|unistd\.h|fcntl\.h|pthread\.h|sys/.*|linux/.*|openssl/.*|emscripten.*)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer_of(path):
    """The layer of a source file (path from the root), or None when it belongs to none (tests)."""
    parts = path.parts
    if parts[0] in ("cli", "wasm"):
        return parts[0]
    if parts[:2] == ("core", "native"):
        return "native"
    if parts[:2] == ("core", "src") and len(parts) > 3:
        return parts[2]
    if parts[:3] == ("core", "include", "tftf") and len(parts) > 4:
        return parts[3]
    return ""


def target_layer(name, root, path):
    """The layer that an include in quotes names, or None when it is no file of ours."""
    if name.startswith("tftf/"):
        return name.split("/")[1] if name.count("/") > 1 else ""
    if name.startswith("tftf_native/"):
        return "native"
    if (root / path.parent / name).exists():
        return layer_of(Path(os.path.normpath(path.parent / name)))
    if (root / "core/src" / name).exists():
        return name.split("/")[0]
    return None


def problems(path, root):
    layer = layer_of(path)
    if layer not in RANK:
        yield 1, f"lies in no layer: one of {', '.join(RANK)}"
        return
    public = path.parts[:2] == ("core", "include")
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match[2]
        if layer not in HOSTS and PLATFORM.match(name):
            yield number, f"the core includes {name}"
        if match[1] == "<":
            continue
        target = target_layer(name, root, path)
        if target is None:
            if not name.startswith("third_party"):
                yield number, f'"{name}" is no file of the project: include dependencies in angle brackets'
        elif target not in RANK:
            yield number, f'"{name}" lies in no layer'
        elif target != layer and RANK[target] >= RANK[layer]:
            yield number, f"{layer} includes {target}: {name}"
        elif public and not name.startswith("tftf/"):
            yield number, f'a public header includes the private "{name}"'
        elif layer in HOSTS and target not in HOSTS and not name.startswith("tftf/"):
            yield number, f'a host includes the private "{name}"'


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    passed = failed = 0
    for top in ("core", "cli", "wasm"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".def") or "node_modules" in file.parts:
                continue
            path = file.relative_to(root)
            found = list(problems(path, root))
            for number, text in found:
                print(f"{path}:{number}: {text}")
            failed += bool(found)
            passed += not found
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
