#!/usr/bin/env python3
"""Runs the inspector and the linter over a corpus of real files and compares with what was recorded of them.

    real_corpus.py --bin DIR --real DIR [--only ID] [-v]

DIR of --real holds manifest.json (items with files, their sizes, header lengths, tensor counts and dtypes, the
verdicts of two reference readers, index figures, quantisation and adapter facts) and one folder per item.
Prints one line per item and exits with 1 when one fails.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

PYTHON, CRATE = "python_safetensors_0.4.5", "crate_0.8.0-dev"
# Dtypes that the older reader does not know.
NEW_DTYPES = {"F8_E8M0", "F4", "F6_E2M3", "F6_E3M2", "C64", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}
# The recorded family and method of an adapter: our family and form; None: whatever it is.
ADAPTERS = {
    "peft-lora": ("peft", "lora"), "peft-unilora": ("peft", "unilora"), "peft-finegates": ("peft", "finegates"),
    "mlx-lora": ("mlx", "lora"), "kohya-lokr": ("kohya", "lokr"), "cloneofsimo": ("cloneofsimo", "lora"),
    "raw w_a/w_b": ("raw-indexed", "lora"), "diffusers-lora": (("diffusers-old", "diffusers-mid"), "lora"),
}
# Facts of single items that a finding has to show: item → (rule, file).
FINDINGS = {
    "mlx-lora-minicpm": [("ST054", "adapters.safetensors")],
    "keymap-empty": [("ST055", "stable_diffusion_vega_ldm_base.safetensors")],
}
# Quantised weights: the layouts that are found, or what a note says of them.
LAYOUTS = {"dsv4-tiny-dspark": {"deepseek-v4-fp8": 9, "deepseek-v4-fp4": 12}}
NOTES = {"torchao-fp8": "torchao's early spelling", "torchao-fp8-multi": "torchao's early spelling"}


class Failure(Exception):
    pass


def expect(what, got, want):
    if got != want:
        raise Failure(f"{what} is {got!r} instead of {want!r}")


def run(exe, args):
    done = subprocess.run([str(exe), *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace")
    if done.returncode not in (0, 1):
        raise Failure(f"{exe.name} {args[0]} exits with {done.returncode}: {err.strip()[:200]}")
    return done.returncode, out, err


def info(bindir, path):
    code, out, err = run(bindir / "tftf", ["info", "--json", path])
    document = json.loads(out)
    if code == 1 and document.get("kind") != "broken" and "error" not in document:
        raise Failure(f"info of {path.name} exits with 1: {err.strip()[:200]}")
    return document


def accepted(file):
    """What both reference readers said: True, False, or None when they differ or were not asked."""
    if "lfs" in file or "verdict" in file:
        return False
    verdicts = {file[reader]["verdict"] for reader in (PYTHON, CRATE) if reader in file}
    return {"accept": True, "reject": False}.get(verdicts.pop()) if len(verdicts) == 1 else None


def check_file(bindir, folder, file):
    """info of one weight file against what was recorded of it."""
    document = info(bindir, folder / file["name"])
    entry = document["files"][0] if document.get("files") else {}
    expect("size", entry.get("size"), file["size"])
    if "lfs" in file:
        expect("kind", document["kind"], "pointer")
        return
    layout = file.get("layout", {})
    if "tensors" in layout:
        expect("header length", entry["header_length"], layout["header_len"])
        duplicates = any(note.startswith("duplicate keys") for note in layout["notes"])
        if not duplicates:
            expect("tensors", document["tensor_count"], layout["tensors"])
            expect("dtypes", {d["dtype"]: d["tensors"] for d in document["dtypes"]}, layout["dtypes"])
    if PYTHON in file and file[PYTHON]["verdict"] == "accept":
        expect("metadata keys", len(document["metadata"]), file[PYTHON]["metadata_keys"])
    if accepted(file):
        expect("status", entry["status"], "ok")
    elif accepted(file) is False:
        expect("status", entry["status"], "broken")
        expect("kind", document["kind"], "broken")


def check_index(document, index):
    got = document["index"]
    if got is None:
        raise Failure("no index was found")
    expect("index file", got["file"], index["file"])
    if index["json"] != "valid":
        if not any("index" in note for note in document["notes"]):
            raise Failure("the broken index is not noted")
        return
    expect("index tensors", got["tensors"], index["tensors"])
    expect("index shards", got["shards"], index["shards"])
    expect("total_size", got["total_size"], index["total_size"])
    expect("missing shards", len(got["missing"]), index["shards"] - index["shards_present"])
    if index["shards_present"] == 0:
        expect("kind", document["kind"], "index")


def quant_method(files):
    """The method that the recorded configuration files amount to, and the file that says so."""
    config = files.get("config.json")
    if config and config["method"]:
        return config["method"] if config["method"].islower() else "modelopt"
    if config and config["bits"]:
        return "mlx"
    if "hf_quant_config.json" in files:
        return "modelopt"
    if "quantize_config.json" in files and files["quantize_config.json"]["bits"]:
        return "gptq"
    return None


def check_quantisation(document, files):
    if "quantization_config.json" in files:  # the section alone, under a name that nobody reads
        expect("error", "error" in document, True)
        return
    got = document["config"]["quant_method"] if document["config"] else None
    expect("quantisation method", got, quant_method(files))


def check_adapter(document, adapter):
    got = document["adapter"]
    if got is None:
        raise Failure("no adapter was found")
    family, form = ADAPTERS[adapter["family"]]
    families = family if isinstance(family, tuple) else (family,)
    if got["family"] not in families:
        raise Failure(f"adapter family is {got['family']!r} instead of {families}")
    expect("adapter forms", list(got["forms"]), [form])
    if adapter["rank"] is not None:
        expect("adapter ranks", list(got["ranks"]), [str(adapter["rank"])])
    # An alpha that lay in the part cut off cannot be read; MLX's alpha is not the scale.
    readable = document["kind"] != "broken" or got["scale"] != "alpha"
    if adapter["alpha"] is not None and readable and got["family"] != "mlx":
        expect("adapter alphas", list(got["alphas"]), [f"{adapter['alpha']:g}"])
    if document["kind"] not in ("adapter", "broken"):
        raise Failure(f"kind is {document['kind']!r}")


def recorded_findings(item):
    """(rule, file) pairs that follow from what was recorded."""
    for file in item["files"]:
        name, layout = file["name"], file.get("layout", {})
        if "lfs" in file:
            yield "ST003", name
        if file["size"] == 0:
            yield "ST001", name
        for note in layout.get("notes", []):
            if "past end of file" in note:
                yield "ST011", name
            elif note.startswith("header length"):
                yield "ST051", name
            elif note.startswith("duplicate keys"):
                yield "ST022", name
            elif note.startswith("gap of") and not any(n.startswith("duplicate keys") for n in layout["notes"]):
                yield "ST042", name  # with duplicates the recorded gaps are those that dropped entries leave
            elif note.startswith("data short"):
                yield "ST040", name
            elif note == "__metadata__ is null":
                yield "ST046", name
        # A cut file has its layout judged by its header alone, misaligned data included.
        if layout.get("misaligned"):
            yield "ST052", name
        if NEW_DTYPES & set(layout.get("dtypes", {})):
            yield "ST031", name
    index = item.get("index")
    if index and index["json"] != "valid":
        yield "IX001", index["file"]
    elif index and index["shards_present"] < index["shards"]:
        yield "IX011", index["file"]
    yield from FINDINGS.get(item["id"], [])


def check_lint(bindir, folder, item):
    _, out, _ = run(bindir / "tftf-lint", ["--format", "json", "--max-issues", "0", folder])
    document = json.loads(out)
    if "error" in document:  # configurations of quantisers alone
        expect("lint's refusal", document["error"]["code"], "refused-missing")
        expect("weights and indexes", [f["name"] for f in item["files"] if "safetensors" in f["name"]], [])
        return
    messages = document["issues"]["messages"]
    shown = {(m["rule"], m["file"]) for m in messages}
    missing = sorted(set(recorded_findings(item)) - shown)
    if missing:
        raise Failure(f"lint does not show {missing[:4]}")
    for file in item["files"]:
        if not file["name"].endswith(".safetensors"):
            continue
        errors = sorted({m["rule"] for m in messages if m["file"] == file["name"] and m["severity"] == 0
                         and m["rule"].startswith("ST")})
        if accepted(file) and errors:
            raise Failure(f"both readers accept {file['name']}, lint says {errors}")
        if accepted(file) is False and not errors:
            raise Failure(f"both readers reject {file['name']}, lint finds no error")


def check_item(bindir, real, item):
    folder = real / item["id"]
    for file in item["files"]:
        if file["name"].endswith(".safetensors"):
            check_file(bindir, folder, file)
    document = info(bindir, folder)
    if "index" in item:
        check_index(document, item["index"])
    if "quantization" in item:
        check_quantisation(document, item["quantization"])
    if item["id"] in LAYOUTS:
        expect("layouts", {one["id"]: one["modules"] for one in document["layouts"]}, LAYOUTS[item["id"]])
    if item["id"] in NOTES and not any(NOTES[item["id"]] in note for note in document["notes"]):
        raise Failure(f"no note says {NOTES[item['id']]!r}")
    if "adapter" in item:
        weights = [file for file in item["files"] if file["name"].endswith(".safetensors") and "lfs" not in file]
        if weights:
            check_adapter(document, item["adapter"])
    if item["kind"] == "embedding":
        expect("kind", document["kind"], "embedding")
    if (bindir / "tftf-lint").exists():
        check_lint(bindir, folder, item)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--real", required=True, type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="ID")
    parser.add_argument("-v", action="store_true", help="name the items that pass too")
    options = parser.parse_args()
    if not (options.bin / "tftf").exists():
        parser.error(f"there is no tftf in {options.bin}")
    items = json.loads((options.real / "manifest.json").read_text(encoding="utf-8"))["items"]
    failed = 0
    for item in items:
        if options.only and item["id"] not in options.only:
            continue
        try:
            check_item(options.bin.resolve(), options.real.resolve(), item)
            if options.v:
                print(f"ok    {item['id']}")
        except (Failure, KeyError, ValueError, subprocess.TimeoutExpired) as why:
            failed += 1
            print(f"FAIL  {item['id']}: {type(why).__name__ + ': ' if not isinstance(why, Failure) else ''}{why}")
    checked = len(items) if not options.only else len(options.only)
    print(f"{checked - failed} of {checked} items pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
