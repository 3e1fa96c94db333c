#!/usr/bin/env python3
"""Run the golden cases against the built command-line tools.

    goldens.py --bin DIR [--root GOLDEN_ROOT] [--set NAME ...] [--group NAME ...] [--only ID ...] [--except ID ...]
               [-v] [--json FILE]

DIR holds the executables `tftf` and `tftf-lint`. GOLDEN_ROOT holds one folder per set (adapters,
safetensors, compressed-tensors, tftf, colibri, quant); default: the folder `golden` beside this script's parent.
Prints one line per set, `SET passed/total`, and the failing case ids with the reason (all with -v), then
`N passed, M failed`.
Exit status 0 when every case of the chosen sets passed. Needs only Python 3.9 or later.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT = 60
NAN_MASKS = {"BF16": (0x7F80, 0x007F), "F16": (0x7C00, 0x03FF)}


# ---------------------------------------------------------------- safetensors
def load(path: Path):
    """{name: (dtype, shape, bytes)} and the metadata of one file."""
    raw = path.read_bytes()
    n = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + n])
    meta = header.pop("__metadata__", None) or {}
    body = memoryview(raw)[8 + n:]
    return {k: (v["dtype"], v["shape"], bytes(body[v["data_offsets"][0]:v["data_offsets"][1]]))
            for k, v in header.items()}, meta


def load_all(path: Path):
    """All tensors of a file, or of every .safetensors file of a folder together."""
    if path.is_file():
        return load(path)[0]
    out = {}
    for f in sorted(path.glob("*.safetensors")):
        for k, v in load(f)[0].items():
            if k in out:
                raise ValueError(f"tensor {k!r} stands in two files")
            out[k] = v
    return out


def floats(dtype, b):
    if dtype == "BF16":
        return [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in struct.unpack(f"<{len(b)//2}H", b)]
    if dtype == "F16":
        return list(struct.unpack(f"<{len(b)//2}e", b))
    if dtype == "F32":
        return list(struct.unpack(f"<{len(b)//4}f", b))
    if dtype == "F64":
        return list(struct.unpack(f"<{len(b)//8}d", b))
    return None


def ordered(dtype, b):
    """16-bit patterns mapped to integers in numeric order, for distances in ulp."""
    return [(0x8000 - x) if x & 0x8000 else (x + 0x8000 - 0x8000) for x in struct.unpack(f"<{len(b)//2}H", b)]


def same_bytes(dtype, got, want, nan_free):
    if got == want:
        return True
    if len(got) != len(want) or not nan_free:
        return False
    a, b = floats(dtype, got), floats(dtype, want)
    if a is None:
        return False
    size = len(got) // len(a)
    for i, (x, y) in enumerate(zip(a, b)):
        if math.isnan(x) and math.isnan(y):
            continue
        if got[i * size:(i + 1) * size] != want[i * size:(i + 1) * size]:
            return False
    return True


def close(dtype, got, want, rule):
    """rule: text such as 'rel 2e-6 + abs 1e-6' or '1 ulp' or 'exact'."""
    a, b = floats(dtype, got), floats(dtype, want)
    if a is None or len(a) != len(b):
        return got == want
    if rule.endswith("ulp"):
        k = float(rule.split()[0])
        if dtype in ("BF16", "F16"):
            oa, ob = ordered(dtype, got), ordered(dtype, want)
            return all((math.isnan(x) and math.isnan(y)) or abs(p - q) <= k
                       for x, y, p, q in zip(a, b, oa, ob))
        eps = {"F32": 2.0 ** -23, "F64": 2.0 ** -52}[dtype]
        return all((math.isnan(x) and math.isnan(y)) or x == y or abs(x - y) <= k * eps * max(abs(x), abs(y))
                   for x, y in zip(a, b))
    rel = abs_ = 0.0
    for part in rule.split("+"):
        kind, _, v = part.strip().partition(" ")
        if kind == "rel":
            rel = float(v)
        elif kind == "abs":
            abs_ = float(v)
    return all((math.isnan(x) and math.isnan(y)) or x == y or abs(x - y) <= abs_ + rel * abs(y)
               for x, y in zip(a, b))


def diff(got, want, tolerance="exact", nan_free=True):
    """None when equal, else the first difference in words."""
    if set(got) != set(want):
        return f"tensors differ: missing {sorted(set(want) - set(got))[:4]}, extra {sorted(set(got) - set(want))[:4]}"
    for k in sorted(want):
        gd, gs, gb = got[k]
        wd, ws, wb = want[k]
        if gd != wd or list(gs) != list(ws):
            return f"{k}: {gd}{gs} instead of {wd}{ws}"
        rule = tolerance.get(wd, "exact") if isinstance(tolerance, dict) else (tolerance or "exact")
        ok = same_bytes(wd, gb, wb, nan_free) if rule == "exact" else close(wd, gb, wb, rule)
        if not ok:
            return f"{k}: values differ ({rule})"
    return None


# ---------------------------------------------------------------- running
class Runner:
    def __init__(self, bindir: Path):
        self.tftf = str((bindir / "tftf").resolve())
        self.lint = str((bindir / "tftf-lint").resolve())

    def run(self, exe, args, cwd):
        p = subprocess.run([exe, *map(str, args)], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=TIMEOUT)
        return p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")


def crash(code):
    return code < 0 or code >= 124 or code == 3


# ---------------------------------------------------------------- set: safetensors (linter)
def cases_safetensors(root: Path):
    m = json.loads((root / "manifest.json").read_text())
    for c in m["cases"]:
        yield c["id"], c


def check_safetensors(r: Runner, root: Path, c, tmp: Path):
    e = json.loads((root / "expect" / f"{c['id']}.json").read_text())
    opts = e.get("options") or {}
    args = ["--format", "json", "--max-issues", "0"]
    if opts.get("data"):
        args.append("--data")
    if opts.get("base"):
        args += ["--base", opts["base"]]
    code, out, err = r.run(r.lint, [*args, c["input"]], root)
    if crash(code):
        return f"exit {code}: {err.strip()[:160]}"
    want_code = 1 if e["expect"]["verdict"] == "fail" else 0
    if code != want_code:
        return f"exit {code} instead of {want_code}"
    rep = json.loads(out)
    sev = ["error", "warning", "info", "hint"]
    got = {(i["rule"], sev[i["severity"]], i["file"], i.get("subject")) for i in rep["issues"]["messages"]}
    want = {(i["rule"], i["severity"], i["file"], i.get("subject")) for i in e["expect"]["issues"]}
    if got != want:
        miss, extra = sorted(want - got, key=str)[:3], sorted(got - want, key=str)[:3]
        return f"missing {miss}, extra {extra}"
    return None


# ---------------------------------------------------------------- set: tftf
def cases_tftf(root: Path):
    m = json.loads((root / "manifest.json").read_text())
    for f in m["case_files"]:
        d = json.loads((root / f).read_text())
        for c in (d["cases"] if isinstance(d, dict) else d):
            yield c["id"], c


def check_tftf(r: Runner, root: Path, c, tmp: Path):
    args = [a.replace("{out}", str(tmp / "out")) for a in c["argv"]]
    out = tmp / ("out.safetensors" if any(a.startswith("{out}.safetensors") for a in c["argv"]) else "out")
    code, so, se = r.run(r.tftf, args, root)
    if crash(code):
        return f"exit {code}: {se.strip()[:160]}"
    refuse_ok = c["kind"] == "fault" and "right_tensors" not in c
    if c["kind"] == "error":
        if code == 0:
            return "succeeded, but must fail"
        if not se.strip() and not so.strip():
            return "failed without a word"
        left = list(out.rglob("*.safetensors")) if out.is_dir() else ([out] if out.exists() else [])
        return f"failed but left {left[0].name}" if left else None
    if refuse_ok:
        want = c.get("right_exit")
        if want is None:
            return None if code in (0, 1, 2) else f"exit {code}"
        return None if (code != 0) == (want != 0) else f"exit {code} where right is {want}: {c['right'][:100]}"
    if c["kind"] == "ok" and code != c.get("exit", 0):
        return f"exit {code} instead of {c.get('exit', 0)}: {se.strip()[:160]}"
    if c["kind"] == "fault":
        if code != 0:
            return f"exit {code}: {se.strip()[:160]}"
        return diff(load_all(out), load(root / c["right_tensors"])[0], c.get("tolerance"))
    tensors = [f for f in c.get("files", []) if f["expected"].endswith(".safetensors") and not f.get("original_only")]
    if tensors:
        want = {}
        for f in tensors:
            want.update(load(root / f["expected"])[0])
        why = diff(load_all(out), want, c.get("tolerance"))
        if why:
            return why
    for f in c.get("files", []):
        if f["expected"].endswith(".index.json") and not f.get("original_only"):
            got = json.loads((out / Path(f["output"]).name).read_text())
            want = json.loads((root / f["expected"]).read_text())
            if got["weight_map"] != want["weight_map"] or \
                    got["metadata"].get("total_size") != want["metadata"].get("total_size"):
                return "index differs"
    return None


# ---------------------------------------------------------------- set: compressed-tensors
def cases_ct(root: Path):
    m = json.loads((root / "manifest.json").read_text())
    for c in m["cases"]:
        if c.get("operation") == "convert":
            yield c["id"], c
            continue
        for op in c["operations"]:
            yield f"{c['id']}:{op['op']}", {**c, "one": op}


def check_ct(r: Runner, root: Path, c, tmp: Path):
    if c.get("operation") == "convert":
        out = tmp / "out"
        verb = {"autoawq": ["repack", "--to", "compressed-tensors"],
                "modelopt_nvfp4": ["repack", "--to", "compressed-tensors"]}.get(c["converter"]["name"]) or \
            ["dequant", "--dtype", c["converter"].get("dtype", "bfloat16")]
        code, so, se = r.run(r.tftf, [*verb, "-i", c["input_dir"], "-o", out, "--no-progress"], root)
        if crash(code):
            return f"exit {code}: {se.strip()[:160]}"
        if c.get("class") == "input_error":
            return None if code != 0 else "succeeded, but must refuse"
        right = root / c["id"] / "correct" / "model.safetensors"
        want = right if right.exists() else (root / c["expected_dir"] if c.get("expected_dir") else None)
        if want is None:
            return None if code in (0, 1, 2) else f"exit {code}"
        if code != 0:
            return f"exit {code}: {se.strip()[:160]}"
        return diff(load_all(out), load_all(want))
    op, files = c["one"], c["files"]
    out = tmp / "out.safetensors"
    if op["op"] == "lint":
        src = tmp / "in"
        src.mkdir()
        shutil.copy(root / files["model"], src / "model.safetensors")
        shutil.copy(root / files["config"], src / "config.json")
        code, so, se = r.run(r.lint, ["--format", "json", src], root)
        if code not in (0, 1):
            return f"exit {code}: {se.strip()[:160]}"
        hits = [m["rule"] for m in json.loads(so)["issues"]["messages"] if m["rule"].startswith("QT") and m["severity"] == 0]
        return None if hits or op["expected_verdict"] != "error" else "no QT error"
    if op["op"] == "decompress":
        src = tmp / "in"
        src.mkdir()
        shutil.copy(root / files["model"], src / "model.safetensors")
        shutil.copy(root / files["config"], src / "config.json")
        args = ["dequant", "--dtype", "native", "-i", src, "-o", out]
    else:
        src = tmp / "in"
        src.mkdir()
        shutil.copy(root / files["dense"], src / "model.safetensors")
        args = ["quantize", "--to", "compressed-tensors", "--scheme", root / files["config"], "-i", src, "-o", out]
        if (op["op"] == "compress" or c.get("formats") is None) and "qparams" in files:
            args += ["--qparams", root / files["qparams"]]
        elif op["op"] == "quantize_rtn" and "qparams" in files:
            args += ["--static-qparams", root / files["qparams"]]
    code, so, se = r.run(r.tftf, [*args, "--no-progress"], root)
    if code != 0:
        return f"exit {code}: {se.strip()[:160]}"
    return diff(load(out)[0], load(root / files[op["expected"]])[0])


# ---------------------------------------------------------------- set: colibri
# Cases about another journal format or about internals (tables, constants, sizes) are unit-test material.
COLIBRI_UNIT = {"input-set", "e8-encode-decode", "expected-size", "rans-table", "constant", "e8-signs",
                "emit-fixture", "eval-build", "eval-score", "fetch-format", "gen-unicode"}
COLIBRI_FREE = {"rp-mtp-bf16head", "rp-nonascii", "conv-io16"}  # a defect of the original: success and refusal are both right


def cases_colibri(root: Path):
    for c in json.loads((root / "manifest.json").read_text())["cases"]:
        if c["operation"] in COLIBRI_UNIT or "resume" in c["id"] or "budget" in c["id"]:
            continue
        yield c["id"], c


def same_outputs(out: Path, case: Path, files, decoded_only=False):
    for f in files:
        rel = Path(f).relative_to("out")
        if rel.name.startswith("."):
            continue
        got, want = out / rel, case / f
        if not got.exists():
            return f"{rel} was not written"
        if rel.suffix == ".safetensors":
            (gt, gm), (wt, wm) = load(got), load(want)
            why = diff(gt, wt)
            if why:
                return f"{rel}: {why}"
            for k in wm:
                if k.startswith("colibri.") and gm.get(k) != wm[k] and (gm.get(k) or "{}") != wm[k]:
                    return f"{rel}: metadata {k} differs"
        elif got.read_bytes() != want.read_bytes() and rel.name != "repack-manifest.json":
            return f"{rel} differs"
    return None


def check_colibri(r: Runner, root: Path, c, tmp: Path):
    case, op, q = root / "cases" / c["id"], c["operation"], c["parameters"]
    out = tmp / "out"
    src = (case / c["inputs"][0]).resolve() if c["inputs"] else None
    e = c["expect"]

    def run(*args):
        return r.run(r.tftf, args, case)

    def report(code, err):
        return f"exit {code}: {err.strip()[:200]}"

    if op in ("convert-fp8-int4", "repack-fp8", "fmt4-to-fmt2", "rans-repack"):
        verb = {"convert-fp8-int4": "convert", "repack-fp8": "repack-fp8", "fmt4-to-fmt2": "fmt4-to-fmt2",
                "rans-repack": "rans-repack"}[op]
        before = set()
        if (case / "before").is_dir():
            shutil.copytree(case / "before", out)
            before = set(out.rglob("*"))
        code, so, se = run("colibri", verb, "--indir", src, "--outdir", out, *q["args"])
        if crash(code):
            return report(code, se)
        if c["id"] in COLIBRI_FREE:
            return None
        if (code == 0) != (e["exit_code"] == 0):
            return f"exit {code} instead of {e['exit_code']}: {se.strip()[:160]}"
        if e["exit_code"] != 0:
            left = [f for f in out.rglob("*.safetensors") if f not in before] if out.exists() else []
            return f"refused but left {left[0].name}" if left else None
        if "--dry-run" in q["args"]:
            return "dry run wrote files" if out.exists() and any(out.iterdir()) else None
        return same_outputs(out, case, e["files"])
    if op == "quantize":
        args = ["--format", q["format"]]
        if "bits" in q:
            args += ["--bits", q["bits"]]
        if "group_size" in q:
            args += ["--group-size", q["group_size"]]
        out = tmp / "w.safetensors"
        code, so, se = run("colibri", "quantize", *args, "-i", src, "-o", out)
        if code != 0:
            return report(code, se)
        want = load(case / e["files"][0])[0]
        return diff(load(out)[0], {k: want[k] for k in ("w", "w.qs") if k in want} or want)
    if op in ("dequant", "dequant-fp8", "dequant-nvfp4", "fp8-block-quantize"):
        out = tmp / "w.safetensors"
        if op == "dequant":
            args = ["colibri", "dequant", "--format", q["format"], "--rows", q["O"], "--cols", q["I"]]
            if "group_size" in q:
                args += ["--group-size", q["group_size"]]
        elif op == "fp8-block-quantize":
            args = ["quantize", "--to", "fp8-block"]
        else:
            args = ["dequant", "--dtype", "float32"]
        code, so, se = run(*args, "-i", src, "-o", out)
        if "files" not in e:
            return "succeeded, but must refuse" if code == 0 else (report(code, se) if crash(code) else None)
        if code != 0:
            return report(code, se)
        want = load(case / e["files"][0])[0]
        if op == "fp8-block-quantize":
            want.pop("dequant", None)
        return diff(load(out)[0], want)
    if op in ("resolve", "classify"):
        rows = json.loads((case / e["files"][0]).read_text())
        batch = tmp / "batch.json"
        batch.write_text(json.dumps([{k: v for k, v in x.items() if k != "expect"} for x in rows] if op == "resolve"
                                    else [x[:4] for x in rows]))
        code, so, se = run("colibri", op, "--batch", batch)
        if code != 0:
            return report(code, se)
        got = json.loads(so)
        if op == "classify":
            bad = [(x, g) for x, g in zip(rows, got) if g != x[4]]
        else:
            keys = ("verdict", "fmt", "group_size", "class")
            bad = [(x, g) for x, g in zip(rows, got)
                   if any(g.get(k) != x["expect"].get(k) for k in keys if k in x["expect"])]
        return f"{len(bad)} of {len(rows)} rows differ, first {str(bad[0])[:200]}" if bad or len(got) != len(rows) else None
    if op == "stamp-ingest":
        code, so, se = run("colibri", "stamps", src, *[a for n in q["query"] for a in ("--query", n)])
        if crash(code):
            return report(code, se)
        got = json.loads(so)
        bad = [k for k in ("verdict", "class", "stamps") if k in e and got.get(k) != e[k]]
        return f"{bad}: {str(got)[:160]}" if bad else None
    if op == "rans-verify":
        src2 = tmp / "in"
        shutil.copytree((case / c["inputs"][0]).resolve(), src2)
        apply_rans_patch(src2, json.loads((case / "patch.json").read_text()))
        code, so, se = run("colibri", "rans-verify", src2, "--json")
        if crash(code):
            return report(code, se)
        got = json.loads(so)
        if (code == 0) != (e["exit_code"] == 0):
            return f"exit {code} instead of {e['exit_code']}"
        g = sorted([x["tensor"] or "-", x["class"]] for x in got["refusals"])
        return None if g == sorted(e["refusals"]) else f"refusals {g}"
    if op == "glm-forward":
        code, so, se = run("colibri", "oracle", src, "--prompt-ids", ",".join(map(str, q["prompt_ids"])),
                           "--new-tokens", q["new_tokens"], "--json")
        if code != 0:
            return report(code, se)
        got, want = json.loads(so), json.loads((case / e["files"][0]).read_text())
        bad = [k for k in got if k in want and got[k] != want[k] and "logit" not in k]
        return f"{bad} differ" if bad else None
    return f"no runner for {op}"


def apply_rans_patch(folder: Path, patch):
    """patch.json of the rans-verify cases; see the note in the manifest."""
    f = next(folder.glob("*.safetensors"))
    raw = bytearray(f.read_bytes())
    n = struct.unpack_from("<Q", raw)[0]
    header, body = json.loads(raw[8:8 + n]), raw[8 + n:]
    for off, val in patch.get("data", []):
        body[off] = val
    meta, table_key = header.get("__metadata__", {}), "colibri.int4-rans256-g0.table"
    for k in patch.get("metadata_delete", []):
        meta.pop(k, None)
    meta.update(patch.get("metadata_set", {}))
    if "table_set" in patch:
        meta[table_key] = json.dumps({**json.loads(meta[table_key]), **patch["table_set"]})
    for k in patch.get("header_delete", []):
        header.pop(k, None)
    header.update(patch.get("header_set", {}))
    edited = any(k in patch for k in ("metadata_delete", "metadata_set", "table_set", "header_set", "header_delete"))
    head = json.dumps(header, separators=(",", ":")).encode() if edited else bytes(raw[8:8 + n])
    f.write_bytes(struct.pack("<Q", len(head)) + head + bytes(body))
    manifest = patch.get("manifest")
    if manifest == "delete":
        (folder / "repack-manifest.json").unlink(missing_ok=True)
    elif isinstance(manifest, dict) and "replace_text" in manifest:
        (folder / "repack-manifest.json").write_text(manifest["replace_text"])
    elif isinstance(manifest, dict) and "remove_record" in manifest:
        path = folder / "repack-manifest.json"
        m = json.loads(path.read_text())
        for shard in m["shards"]:
            shard["records"].pop(manifest["remove_record"], None)
        path.write_text(json.dumps(m))


# ---------------------------------------------------------------- set: adapters
FACTORS = ((".lora_down.weight", ".lora_up.weight", False), (".lora_A.weight", ".lora_B.weight", False),
           (".lora_a", ".lora_b", True))


def cases_adapters(root: Path):
    for c in json.loads((root / "manifest.json").read_text())["cases"]:
        yield c["id"], c


def comfy_name(k):
    return k.replace(".lora_down.", ".lora_A.").replace(".lora_up.", ".lora_B.")


def diff_adapter(got, want, tolerance, normalise):
    """diff() with two freedoms: alpha tensors compare by value, and ComfyUI's two spellings are one."""
    if normalise == "comfy":
        got, want = ({comfy_name(k): v for k, v in d.items()} for d in (got, want))
    for k in [k for k in want if k.endswith(".alpha") and k in got]:
        (gd, gs, gb), (wd, ws, wb) = got[k], want[k]
        a, b = floats(gd, gb), floats(wd, wb)
        if a is None or len(a) != 1 or abs(a[0] - b[0]) > 1e-6 * abs(b[0]):
            return f"{k}: {a} instead of {b}"
    got, want = ({k: (("alpha", [], b"") if k.endswith(".alpha") else v) for k, v in d.items()} for d in (got, want))
    return diff(got, want, tolerance)


def pattern(patterns, module, default):
    for k, v in (patterns or {}).items():
        if re.match(rf"(.*\.)?({k})$", module):
            return v
    return default


def rank_alpha(cfg, module):
    """(rank, alpha) of one module after the patterns of a PEFT configuration; rsLoRA is turned into plain alpha."""
    r = pattern(cfg.get("rank_pattern"), module, cfg["r"])
    a = pattern(cfg.get("alpha_pattern"), module, cfg.get("lora_alpha", cfg.get("alpha")))
    return float(r), float(a) * (math.sqrt(r) if cfg.get("use_rslora") else 1.0)


def check_config(spec, out: Path):
    path = Path(spec["file"].replace("{out}", str(out)))
    if not path.exists():
        return f"{path.name} was not written"
    cfg = json.loads(path.read_text())
    for key, want in spec.get("subset", {}).items():
        got = cfg
        for part in key.split("."):
            got = got.get(part) if isinstance(got, dict) else None
        if got != want and not (want is False and got is None):
            return f"{path.name}: {key} is {got!r} instead of {want!r}"
    targets = cfg.get("target_modules")
    for m, (r, a) in spec.get("modules", {}).items():
        gr, ga = rank_alpha(cfg, m)
        same = abs(ga / gr - a / r) <= 1e-6 * abs(a / r) and (spec.get("scale_only") or gr == r)
        if not same:
            return f"{path.name}: {m} has r {gr}, alpha {ga} instead of {r}, {a}"
        hit = re.fullmatch(targets, m) if isinstance(targets, str) else any(
            m == t or m.endswith("." + t) for t in targets or [])
        if not hit:
            return f"{path.name}: target_modules does not match {m}"
    return None


def effective(out: Path):
    """{module: (rank, rows)}: s * B @ A of every module of an adapter file or folder, in plain Python."""
    folder = out if out.is_dir() else out.parent
    cfg = json.loads((folder / "adapter_config.json").read_text()) if (folder / "adapter_config.json").exists() else {}
    tensors, res = load_all(out), {}

    def matrix(k, transpose):
        dtype, shape, b = tensors[k]
        rows, flat = shape[0], floats(dtype, b)
        n = len(flat) // rows if rows else 0
        m = [flat[i * n:(i + 1) * n] for i in range(rows)]
        return [list(x) for x in zip(*m)] if transpose else m

    for down, up, transpose in FACTORS:
        for k in [k for k in tensors if k.endswith(down)]:
            name = k[:-len(down)]
            a, b = matrix(k, transpose), matrix(name + up, transpose)
            r = len(a)
            if name + ".alpha" in tensors:
                s = floats(*tensors[name + ".alpha"][::2])[0] / r
            elif "lora_parameters" in cfg:
                s = cfg["lora_parameters"]["scale"]
            elif "peft_type" in cfg:
                cr, ca = rank_alpha(cfg, name[len("base_model.model."):] if name.startswith("base_model.model.") else name)
                s = ca / cr
            else:
                s = 1.0
            cols = list(zip(*a))
            res[name] = (r, [[s * sum(x * y for x, y in zip(row, col)) for col in cols] for row in b])
    return res


def diff_product(out: Path, deltas: Path, ranks, tolerance):
    got, want = effective(out), load(deltas)[0]
    norms = {k: math.sqrt(sum(x * x for x in floats(d, b))) for k, (d, s, b) in want.items()}
    top = max(norms.values(), default=0.0)
    for k in sorted(set(got) | set(want)):
        if k not in want:
            return f"{k}: a module that must not be there"
        dtype, shape, b = want[k]
        if k not in got:
            if norms[k] > 1e-5 * top or k in ranks:
                return f"{k}: module missing"
            continue
        r, rows = got[k]
        flat = [x for row in rows for x in row]
        w = floats(dtype, b)
        if len(rows) != shape[0] or len(flat) != len(w):
            return f"{k}: {len(rows)} x {len(flat) // max(len(rows), 1)} instead of {shape}"
        err = math.sqrt(sum((x - y) ** 2 for x, y in zip(flat, w)))
        if not err <= tolerance * (norms[k] if norms[k] > 1e-5 * top else top):
            return f"{k}: the difference is off by {err / (norms[k] or 1.0):.3g} (tolerance {tolerance})"
        if k in ranks and r != ranks[k]:
            return f"{k}: rank {r} instead of {ranks[k]}"
    return None


def plain(v):
    """Numbers as floats, keys that are numbers likewise, lists of texts sorted."""
    if isinstance(v, dict):
        def key(k):
            try:
                return float(k)
            except ValueError:
                return k
        return {key(k): plain(x) for k, x in v.items()}
    if isinstance(v, list):
        return sorted(v) if all(isinstance(x, str) for x in v) else [plain(x) for x in v]
    return float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else v


def check_adapters(r: Runner, root: Path, c, tmp: Path):
    out = tmp / "out"
    code, so, se = r.run(r.tftf, [a.replace("{out}", str(out)) for a in c["argv"]], root)
    if crash(code):
        return f"exit {code}: {se.strip()[:160]}"
    if c["kind"] == "error":
        if code == 0:
            return "succeeded, but must fail"
        if not se.strip() and not so.strip():
            return "failed without a word"
        left = list(tmp.rglob("*.safetensors"))
        return f"failed but left {left[0].name}" if left else None
    if code != c.get("exit", 0):
        return f"exit {code} instead of {c.get('exit', 0)}: {se.strip()[:160]}"
    if "json" in c:
        got = json.loads(so)
        for k, v in c["json"].items():
            if k not in got or plain(got[k]) != plain(v):
                return f"{k} is {got.get(k)!r} instead of {v!r}"
        if c["argv"][1] == "info" and not got.get("evidence"):
            return "no evidence given"
    side = "right_" if c["kind"] == "fault" else ""
    for f in c.get(side + "files", []):
        path = Path(f["output"].replace("{out}", str(out)))
        if not path.exists():
            return f"{path.name} was not written"
        why = diff_adapter(load(path)[0], load(root / f["expected"])[0], c.get("tolerance"), c.get("normalise"))
        if why:
            return why
    if side + "deltas" in c:
        path = Path(next(a for a in c["argv"] if a.startswith("{out}")).replace("{out}", str(out)))
        why = diff_product(path, root / c[side + "deltas"], c.get(side + "ranks", {}), c["tolerance"])
        if why:
            return why
    spec = c.get("config", [])
    for one in spec if isinstance(spec, list) else [spec]:
        why = check_config(one, out)
        if why:
            return why
    return None


# ---------------------------------------------------------------- set: quant
def cases_quant(root: Path):
    for c in json.loads((root / "manifest.json").read_text())["cases"]:
        if c["argv"][0] != "info":
            yield c["id"], c
        if "layouts" in c:
            yield c["id"] + ":info", {**c, "one": "info"}


def parsed_json_tensors(tensors):
    """comfy_quant tensors hold JSON text: spelling is free, the value is not."""
    return {k: (d, [0], json.dumps(json.loads(b), sort_keys=True).encode()) if k.endswith(".comfy_quant") else (d, sh, b)
            for k, (d, sh, b) in tensors.items()}


def check_quant(r: Runner, root: Path, c, tmp: Path):
    if c.get("one") == "info":
        code, so, se = r.run(r.tftf, ["info", "--json", c["input"]], root)
        if code != 0:
            return f"exit {code}: {se.strip()[:160]}"
        got = sorted({x["id"] for x in json.loads(so)["layouts"]})
        return None if got == sorted(c["layouts"]) else f"layouts {got} instead of {sorted(c['layouts'])}"
    argv = [a.replace("{out}", str(tmp / "out")) for a in c["argv"]]
    if argv[0] == "dequant" and "--dtype" not in argv:
        argv += ["--dtype", "native"]
    code, so, se = r.run(r.tftf, argv, root)
    if crash(code):
        return f"exit {code}: {se.strip()[:160]}"
    if c["kind"] == "error":
        if code == 0:
            return "succeeded, but must refuse"
        text = (so + se).lower()
        if not any(w.lower() in text for w in c["says"]):
            return f"the message has none of {c['says']}: {text.strip()[:120]}"
        left = [f.name for f in tmp.rglob("*.safetensors")]
        return f"refused but left {left[0]}" if left else None
    if code != 0:
        return f"exit {code}: {se.strip()[:160]}"
    if c.get("warns") and "warning" not in se.lower():
        return "no warning"
    f = c["files"][0]
    out = Path(f["output"].replace("{out}", str(tmp / "out")))
    why = diff(parsed_json_tensors(load_all(out)), parsed_json_tensors(load(root / f["expected"])[0]), c.get("tolerance"))
    if why or "config" not in c:
        return why
    config = json.loads((out / "config.json").read_text())
    for path, want in c["config"].items():
        v = config
        for key in path.split("."):
            v = v.get(key) if isinstance(v, dict) else None
        if v != want:
            return f"config.json: {path} is {v!r} instead of {want!r}"
    return None


SETS = {
    "adapters": (cases_adapters, check_adapters),
    "colibri": (cases_colibri, check_colibri),
    "safetensors": (cases_safetensors, check_safetensors),
    "tftf": (cases_tftf, check_tftf),
    "compressed-tensors": (cases_ct, check_ct),
    "quant": (cases_quant, check_quant),
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent
    ap.add_argument("--bin", required=True, type=Path)
    ap.add_argument("--root", type=Path, default=here.parent / "golden")
    ap.add_argument("--set", action="append", choices=sorted(SETS))
    ap.add_argument("--only", action="append", default=[], metavar="ID")
    ap.add_argument("--group", action="append", default=[], help="only cases of this group (set tftf)")
    ap.add_argument("--except", dest="excluded", action="append", default=[], metavar="ID")
    ap.add_argument("-v", action="store_true")
    ap.add_argument("--json", type=Path)
    a = ap.parse_args()
    r = Runner(a.bin)
    good_total, bad_total, result = 0, 0, {}
    for name in a.set or sorted(SETS):
        root = (a.root / name).resolve()
        if not root.is_dir():
            continue
        list_cases, check = SETS[name]
        passed, failed = [], {}
        for cid, c in list_cases(root):
            if (a.only and cid not in a.only) or (a.group and c.get("group") not in a.group) or cid in a.excluded:
                continue
            with tempfile.TemporaryDirectory() as t:
                try:
                    why = check(r, root, c, Path(t))
                except subprocess.TimeoutExpired:
                    why = f"no answer in {TIMEOUT} s"
                except Exception as ex:  # a malformed output is a failed case, not a broken runner
                    why = f"{type(ex).__name__}: {ex}"
            if why:
                failed[cid] = why
            else:
                passed.append(cid)
        result[name] = {"passed": len(passed), "total": len(passed) + len(failed), "failed": failed}
        good_total += len(passed)
        bad_total += len(failed)
        print(f"{name} {len(passed)}/{len(passed) + len(failed)}")
        shown = list(failed.items()) if a.v else list(failed.items())[:12]
        for cid, why in shown:
            print(f"  {cid}: {why[:300]}")
        if len(shown) < len(failed):
            print(f"  ... {len(failed) - len(shown)} more (-v shows all)")
    if a.json:
        a.json.write_text(json.dumps(result, indent=1))
    print(f"{good_total} passed, {bad_total} failed")
    return 1 if bad_total or not good_total else 0


if __name__ == "__main__":
    sys.exit(main())
