#!/usr/bin/env python3
"""Names in anonymous namespaces are unique within a folder: all presets but dev compile a folder as one translation unit,
where a second name of the kind is an error at best and another overload at worst. Also holds the names of test files apart,
by which Catch2's cases are told."""
import re
import sys
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FOLDERS = ("core/src", "core/native", "cli", "tests/unit", "tests/hosts", "tests/support", "tests/tools/docs", "wasm")
ALONE = re.compile(r"(^|_)(avx2|avx512|neon|wasm128)\.cpp$|^main_|_bench\.cpp$|_fuzz\.cpp$")
ANONYMOUS = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.M | re.S)
NAMES = [
    re.compile(r"^(?:(?:constexpr|inline|static|\[\[\w+\]\]) )*[A-Za-z_][\w:<>,&* ]*?[ *&]([a-z_]\w*)\(", re.M),
    re.compile(r"^(?:struct|class|enum class|enum) (\w+)", re.M),
    re.compile(r"^using (\w+) =", re.M),
    re.compile(r"^(?:constexpr|const|inline|static) [^=({\n]*?\b(k[A-Z]\w*)", re.M),
]


def main():
    seen = defaultdict(set)
    tests = defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((TOP / folder).rglob("*.cpp")):
            if ALONE.search(path.name):
                continue
            if path.name.endswith("_test.cpp"):
                tests[path.name].add(str(path.relative_to(TOP)))
            text = path.read_text()
            for block in ANONYMOUS.finditer(text):
                around = " ".join(re.findall(r"^namespace ([\w:]+) \{$", text[:block.start()], re.M))
                for pattern in NAMES:
                    for name in pattern.findall(block.group(1)):
                        seen[path.parent.relative_to(TOP), around, name].add(path.name)
    wrong = [f"{folder}: {name} is in {', '.join(sorted(files))}"
             for (folder, _, name), files in seen.items() if len(files) > 1]
    wrong += [f"{name}: {', '.join(sorted(files))}" for name, files in tests.items() if len(files) > 1]
    for line in wrong:
        print(line)
    print(f"{len(seen)} names in anonymous namespaces, {len(wrong)} wrong")
    print(f"{0 if wrong else 1} passed, {1 if wrong else 0} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
