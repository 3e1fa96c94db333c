#!/usr/bin/env python3
"""Identifies the adapters of a corpus of real files, converts each into every family that it can be, lints the results
and converts them back.

    adapter_corpus.py --bin DIR --real DIR [--only ID] [-v]

DIR of --real holds manifest.json and one folder per item (real_corpus.py). Files that were cut behind their header get
values by a fixed rule first. Prints one line per item and exits with 1 when one fails.
"""
import argparse
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from real_corpus import ADAPTERS

SIZES = {"F32": 4, "F16": 2, "BF16": 2}
TARGETS = ("peft", "kohya", "diffusers", "comfy", "mlx")
# Family of an item to what it can become, and to what only without its whole tensors.
POSSIBLE = {
    "kohya": {"peft", "kohya", "comfy"},
    "diffusers-old": set(TARGETS), "diffusers-mid": set(TARGETS),
    "mlx": {"peft", "mlx"}, "peft": {"peft", "mlx"},
    "cloneofsimo": set(), "raw-indexed": set(),
}
BACK = {"kohya": "kohya", "diffusers-old": "diffusers", "diffusers-mid": "diffusers", "mlx": "mlx", "peft": "peft"}
# Methods without another form.
OTHER_METHODS = {"unilora", "finegates"}


class Failure(Exception):
    pass


def header(path):
    with open(path, "rb") as file:
        n = struct.unpack("<Q", file.read(8))[0]
        return 8 + n, json.loads(file.read(n))


def tensors(path):
    """{name: (dtype, shape, bytes)} of a file, or of all files below a folder."""
    found = {}
    for file in sorted(path.rglob("*.safetensors")) if path.is_dir() else [path]:
        begin, entries = header(file)
        data = file.read_bytes()[begin:]
        for name, entry in entries.items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[first:end])
    return found


def complete(source, target):
    """A copy of the item with values where they were cut off."""
    shutil.copytree(source, target)
    for file in target.glob("*.safetensors"):
        file.chmod(0o644)
        begin, entries = header(file)
        size = begin + max((e["data_offsets"][1] for k, e in entries.items() if k != "__metadata__"), default=0)
        missing = size - file.stat().st_size
        if missing <= 0:
            continue
        rng = random.Random(1)
        # The same two bytes are a small number in all three dtypes' high halves.
        words = [struct.pack("<e", rng.uniform(-0.1, 0.1)) for _ in range(4096)]
        block = b"".join(words)
        wide = b"".join(struct.pack("<f", rng.uniform(-0.1, 0.1)) for _ in range(4096))
        dtypes = {e["dtype"] for k, e in entries.items() if k != "__metadata__"}
        fill = wide if dtypes == {"F32"} else block
        with open(file, "ab") as out:
            out.write((fill * (missing // len(fill) + 1))[:missing])


def run(exe, *args):
    done = subprocess.run([str(exe), *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    if done.returncode not in (0, 1):
        raise Failure(f"{exe.name} {' '.join(map(str, args))} exits with {done.returncode}: {done.stderr.decode()[:200]}")
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def is_pointer(folder):
    return any(file.stat().st_size < 200 for file in folder.glob("*.safetensors"))


def findings(lint, path):
    """Rules of errors and warnings that a file or folder has, values looked at."""
    code, report, err = run(lint, "--data", "--format", "json", path)
    return {f["rule"] for f in json.loads(report)["issues"]["messages"] if f["severity"] <= 1}


def factors(found):
    """The factors' bytes without their names: what a renaming must keep."""
    return sorted((s, b) for k, (d, s, b) in found.items() if not k.endswith(".alpha"))


def check(bindir, item, folder, tmp, verbose):
    tftf, lint = bindir / "tftf", bindir / "tftf-lint"
    work = tmp / "in"
    complete(folder, work)
    files = [f["name"] for f in item["files"] if f["name"].endswith(".safetensors")]
    path = work if (work / "adapter_config.json").exists() else work / files[0]
    code, out, err = run(tftf, "adapter", "info", "--json", path)
    document = json.loads(out)
    family, form = ADAPTERS[item["adapter"]["family"]]
    families = (family,) if isinstance(family, str) else family
    if document["family"] not in families or form not in document["forms"]:
        raise Failure(f"is {document['family']} {document['forms']} instead of {family} {form}")
    # One of the home-made files has first factors alone.
    if code != 0 or (document["unpaired"] and document["family"] != "raw-indexed"):
        raise Failure(f"info exits with {code}, unpaired {document['unpaired'][:2]}")
    rank = item["adapter"]["rank"]
    if rank is not None and form not in OTHER_METHODS and str(rank) not in document["ranks"]:
        raise Failure(f"ranks {document['ranks']} without {rank}")
    became = []
    possible = set() if form in OTHER_METHODS else POSSIBLE[document["family"]]
    for target in TARGETS:
        result = tmp / f"to-{target}"
        options = ["--base-family", "sd1"] if target == "comfy" and document["base_family"] is None else []
        # Whole tensors of a head have no other form: they are left out by name.
        if document["family"] == "peft" and target != "peft":
            options.append("--allow-partial")
        code, out, err = run(tftf, "adapter", "convert", "-i", path, "--to", target, "-o", result, "--json", *options)
        if (code == 0) != (target in possible):
            raise Failure(f"to {target} exits with {code}: {err.strip()[:200]}")
        if code != 0:
            if result.exists():
                raise Failure(f"to {target} was refused and left {result.name}")
            continue
        coverage = json.loads(out)["coverage"]
        if sum(coverage.values()) != len(tensors(work / files[0])):
            raise Failure(f"to {target} counts {coverage}")
        bad = findings(lint, result) - findings(lint, path)
        if bad:
            raise Failure(f"to {target} has findings {sorted(bad)[:5]}")
        turn_back(tftf, item, document["family"], target, result, tmp, tensors(work / files[0]))
        became.append(target)
        if verbose:
            print(f"  {target}: {coverage}")
    return became


def turn_back(tftf, item, family, target, result, tmp, before):
    """Back to the input's family: its factors' bytes return, but for what has to be turned or scaled."""
    parts = [result]
    if target == "peft" and not (result / "adapter_config.json").exists():
        parts = sorted(p for p in result.iterdir() if p.is_dir())
    after = {}
    for number, part in enumerate(parts):
        back = tmp / f"back-{target}-{number}"
        code, out, err = run(tftf, "adapter", "convert", "-i", part, "--to", BACK[family], "-o", back, "--json")
        if code != 0:
            raise Failure(f"back from {target}: {err.strip()[:200]}")
        after.update(tensors(back))
    whole = [k for k in before if "lora" not in k and "lokr" not in k and not k.endswith(".alpha")]
    kept = {k: v for k, v in before.items() if target in ("peft",) or k not in whole}
    if factors(after) != factors(kept):
        raise Failure(f"back from {target}: the factors are others")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--real", type=Path, required=True)
    parser.add_argument("--only")
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    items = json.loads((args.real / "manifest.json").read_text())["items"]
    passed = failed = 0
    for item in items:
        if "adapter" not in item or (args.only and item["id"] != args.only) or is_pointer(args.real / item["id"]):
            continue
        with tempfile.TemporaryDirectory() as tmp:
            try:
                became = check(args.bin.resolve(), item, args.real / item["id"], Path(tmp), args.v)
                print(f"ok   {item['id']}: {', '.join(became) or 'identified'}")
                passed += 1
            except Failure as failure:
                print(f"FAIL {item['id']}: {failure}")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
