#!/usr/bin/env python3
"""Measures the tools against `cp` and prints a table; both sides end with everything on the disk.

    bench.py [--bin build/release/bin] [--work FOLDER] [--runs 5] [--size MIB] [--only a,b,…] [--json FILE]

    a  dequant-fp8 of an FP8 model (1 GiB) against cp of its output           ratio <= 1.0, RSS <= 48 MiB
    g  dequant-fp8 of a single tensor of 4 GiB: memory only                   RSS <= 48 MiB
    b  passthrough of the same model against cp                               ratio <= 0.9, RSS <= 48 MiB
    c  merge-lora, r=16, into a BF16 model against cp of its output            ratio <= 0.7, RSS <= 64 MiB + adapter
    d  dequant-fp8 --merge-lora, r=16, of the FP8 model likewise               ratio <= 1.3, RSS <= 64 MiB + adapter
    f  merge-lora, r=128                                                       ratio <= 1.4, RSS <= 64 MiB + adapter
    z  adapter resize to rank 32 of a rank-128 adapter of a 7B model (224 modules, BF16)   3 s, RSS <= 200 MB
    r  colibri repack-fp8 of the FP8 model against cp                         ratio <= 0.9, RSS <= 64 MiB
    q  dequant of a GPTQ model (4 bits, groups of 128) against cp of its output   ratio <= 1.2, RSS <= 48 MiB
    w  dequant of an AWQ model likewise                                           ratio <= 1.2, RSS <= 48 MiB
    n, v, x, m  dequant of NF4, NVFP4, gpt-oss MXFP4, MLX of 4 bits likewise      ratio <= 1.0, RSS <= 48 MiB
    p  repack of the GPTQ model to AWQ against cp of its output                   RSS <= 64 MiB
    e  the plan of 92,000 tensors in 163 shards (sparse files)                time and memory
    k  the benchmarks that are executables of their own (kernels, headers)

Runs of both sides alternate, the order changes every time, the figure is the ratio of the medians. A ratio says more
than the seconds beside it: those are the machine's. Exit status 1 when a limit is passed.
"""
import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 1 << 20
TOOLS = Path(__file__).resolve().parent.parent / "tools"


def write_model(folder, tensors, shards=2, rows=4096, columns=4096, sparse=False):
    """FP8 weights of rows x columns with scales of blocks of 128, in `shards` files with index and config.json."""
    folder.mkdir()
    blocks = [-(-rows // 128), -(-columns // 128)]
    codes = bytearray(os.urandom(16 * MIB))
    for i, code in enumerate(codes):  # no NaN codes: weights have none
        if code & 0x7F == 0x7F:
            codes[i] = 0x38
    scale = struct.pack("<f", 2.0 ** -9) * (blocks[0] * blocks[1])
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        own = range(tensors * shard // shards, tensors * (shard + 1) // shards)
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for dtype, suffix, shape, size in (("F32", "_scale_inv", blocks, len(scale)),
                                           ("F8_E4M3", "", [rows, columns], rows * columns)):
            for t in own:
                tensor = f"model.layers.{t}.mlp.up_proj.weight{suffix}"
                header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
                weight_map[tensor] = name
                at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for _ in own:
                f.write(scale)
            left = rows * columns * len(own)
            if sparse:
                f.truncate(f.tell() + left)
                left = 0
            while left > 0:
                left -= f.write(codes[:min(left, len(codes))])
            f.flush()
            os.fsync(f.fileno())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(
        {"model_type": "deepseek_v3", "torch_dtype": "bfloat16",
         "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}}))


def write_plain_model(folder, tensors, rows=4096, columns=4096):
    """BF16 weights of rows x columns in two shards, with index and config.json."""
    folder.mkdir()
    values = bytearray(os.urandom(16 * MIB))
    for i in range(1, len(values), 2):  # exponents of small numbers
        values[i] = 0x3C | values[i] & 0x80
    weight_map = {}
    for shard in range(2):
        name = f"model-{shard + 1:05}-of-00002.safetensors"
        own = range(tensors * shard // 2, tensors * (shard + 1) // 2)
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for t in own:
            size = 2 * rows * columns
            header[f"model.layers.{t}.mlp.up_proj.weight"] = {"dtype": "BF16", "shape": [rows, columns],
                                                              "data_offsets": [at, at + size]}
            weight_map[f"model.layers.{t}.mlp.up_proj.weight"] = name
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / name, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            while at > 0:
                at -= f.write(values[:min(at, len(values))])
            f.flush()
            os.fsync(f.fileno())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "torch_dtype": "bfloat16"}))


def write_parts(folder, modules, config):
    """One file of modules, each a list of (name, dtype, shape, bytes)."""
    folder.mkdir()
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for parts in modules:
        for name, dtype, shape, data in parts:
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for parts in modules:
            for part in parts:
                f.write(part[3])
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "torch_dtype": "bfloat16", **config}))


def named(count, parts):
    """The parts of one module under the names of `count` layers."""
    return [[(f"model.layers.{t}.mlp.up_proj.{name}", *rest) for name, *rest in parts] for t in range(count)]


def write_qweight_model(folder, tensors, awq, rows=4096, columns=4096, group=128):
    """GPTQ (with g_idx) or AWQ weights of 4 bits, all random but for the zero points and scales."""
    groups = columns // group
    shape = [columns, rows // 8] if awq else [columns // 8, rows]
    parts = [("qweight", "I32", shape, os.urandom(rows * columns // 2)),
             ("qzeros", "I32", [groups, rows // 8], b"\x76" * (groups * rows // 2)),
             ("scales", "F16", [groups, rows], struct.pack("<e", 0.01) * (groups * rows))]
    if not awq:
        parts.append(("g_idx", "I32", [columns], b"".join(struct.pack("<I", k // group) for k in range(columns))))
    section = {"quant_method": "awq", "version": "gemm", "zero_point": True} if awq else \
        {"quant_method": "gptq", "checkpoint_format": "gptq", "desc_act": False, "sym": False}
    write_parts(folder, named(tensors, parts),
                {"quantization_config": {**section, "bits": 4, "group_size": group}})


def write_nibble_model(folder, tensors, layout, rows=4096, columns=4096):
    """Weights of 4 bits whose codes are random, in NF4, NVFP4 (ModelOpt), gpt-oss MXFP4 or MLX's affine layout."""
    elements, codes = rows * columns, os.urandom(rows * columns // 2)
    if layout == "nf4":
        state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [rows, columns]}).encode()
        parts = [("weight", "U8", [elements // 2, 1], codes),
                 ("weight.absmax", "F32", [elements // 64], struct.pack("<f", 0.02) * (elements // 64)),
                 ("weight.quant_map", "F32", [16], struct.pack("<16f", *(i / 7.5 - 1 for i in range(16)))),
                 ("weight.quant_state.bitsandbytes__nf4", "U8", [len(state)], state)]
        return write_parts(folder, named(tensors, parts), {})
    if layout == "nvfp4":
        parts = [("weight", "U8", [rows, columns // 2], codes),
                 ("weight_scale", "F8_E4M3", [rows, columns // 16], bytes(0x30 + i % 16 for i in range(256)) * (elements // 4096)),
                 ("weight_scale_2", "F32", [], struct.pack("<f", 0.001))]
        return write_parts(folder, named(tensors, parts), {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})
    if layout == "mlx":
        scales = struct.pack("<H", 0x3C23) * (elements // 64)
        parts = [("weight", "U32", [rows, columns // 8], codes), ("scales", "BF16", [rows, columns // 64], scales),
                 ("biases", "BF16", [rows, columns // 64], scales)]
        return write_parts(folder, named(tensors, parts), {"quantization": {"group_size": 64, "bits": 4}})
    # Experts of gpt-oss: 2880 is its size, not a power of two.
    experts, outputs, blocks = 16, 2880, 90
    count = tensors * elements // (experts * outputs * blocks * 32)
    name = "model.layers.{}.mlp.experts.down_proj_{}"
    codes = os.urandom(experts * outputs * blocks * 16)
    scales = bytes(118 + i % 8 for i in range(240)) * (experts * outputs * blocks // 240)
    return write_parts(folder, [[(name.format(t, "blocks"), "U8", [experts, outputs, blocks, 16], codes),
                                 (name.format(t, "scales"), "U8", [experts, outputs, blocks], scales)]
                                for t in range(max(1, count))], {"quantization_config": {"quant_method": "mxfp4"}})


def write_adapter(folder, tensors, rank, rows=4096, columns=4096):
    """A PEFT adapter of BF16 pairs for all weights; its size in bytes."""
    folder.mkdir()
    values = bytearray(os.urandom(2 * rank * max(rows, columns)))
    for i in range(1, len(values), 2):
        values[i] = 0x3A | values[i] & 0x80
    header, at = {}, 0
    for t in range(tensors):
        for part, shape in (("A", [rank, columns]), ("B", [rows, rank])):
            size = 2 * shape[0] * shape[1]
            header[f"base_model.model.model.layers.{t}.mlp.up_proj.lora_{part}.weight"] = {
                "dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
            at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "adapter_model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for entry in header.values():
            begin, end = entry["data_offsets"]
            f.write(values[:end - begin])
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": ["up_proj"]}))
    return at


def write_llama_adapter(folder, rank, layers=32, hidden=4096, inner=11008):
    """A PEFT adapter for every matrix of a model of Llama 7B's shape: BF16 factors, all values random."""
    folder.mkdir()
    shapes = [(f"self_attn.{p}_proj", hidden, hidden) for p in "qkvo"]
    shapes += [("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden), ("mlp.down_proj", hidden, inner)]
    values = bytearray(os.urandom(2 * rank * inner + 4 * MIB))
    for i in range(1, len(values), 2):  # around a hundredth
        values[i] = 0x3C | values[i] & 0x80
    header, at = {}, 0
    for layer in range(layers):
        for name, rows, columns in shapes:
            for part, shape in (("A", [rank, columns]), ("B", [rows, rank])):
                size = 2 * shape[0] * shape[1]
                header[f"base_model.model.model.layers.{layer}.{name}.lora_{part}.weight"] = {
                    "dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
                at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "adapter_model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for number, entry in enumerate(header.values()):  # no two factors begin alike
            begin, end = entry["data_offsets"]
            first = number * 7919 % (2 * MIB) * 2
            f.write(values[first:first + end - begin])
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": [s[0].split(".")[1] for s in shapes]}))


# Linux counts what a process held before exec towards its peak, so the command starts from a small process, not from here.
LAUNCHER = """
import json, resource, subprocess, sys, time
begin = time.monotonic()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
seconds = time.monotonic() - begin
rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(json.dumps([seconds, rss, done.returncode, done.stderr.decode(errors="replace")]))
"""


def run(command):
    """Seconds and peak resident bytes of a command."""
    out = subprocess.run([sys.executable, "-c", LAUNCHER, *map(str, command)], stdout=subprocess.PIPE, check=True).stdout
    seconds, rss, status, err = json.loads(out)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}: {err}")
    return seconds, rss


def copy(source, target):
    """cp -r and a sync of each file, in seconds."""
    begin = time.monotonic()
    subprocess.run(["cp", "-r", source, target], check=True)
    for file in [target, *target.rglob("*")]:
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    return time.monotonic() - begin


def clean(path):
    shutil.rmtree(path, ignore_errors=True)
    os.sync()


def warm(folder):
    """Both sides find their input in memory."""
    for file in folder.iterdir():
        with open(file, "rb") as f:
            while f.read(16 * MIB):
                pass


def against_cp(command, copied, out, runs):
    """Alternating runs of a command that writes `out`, and of cp of `copied` (None: of what the command wrote)."""
    ours, theirs, rss = [], [], 0
    source = copied
    if source is None:
        source = out.with_name("reference")
        run([*command, source])
    warm(source)
    target = out.with_name("copy")
    for i in range(runs):
        for side in ("ours", "cp") if i % 2 == 0 else ("cp", "ours"):
            clean(out)
            clean(target)
            if side == "ours":
                seconds, peak = run([*command, out])
                ours.append(seconds)
                rss = max(rss, peak)
            else:
                theirs.append(copy(source, target))
    clean(out)
    clean(target)
    if copied is None:
        clean(source)
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    return {"seconds": round(ours, 3), "cp_seconds": round(theirs, 3), "ratio": round(ours / theirs, 3), "rss_mib": round(rss / MIB, 1)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    ap.add_argument("--work", type=Path, help="where the files are made (default: a folder below the temporary one)")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--size", type=int, default=1024, help="MiB of the FP8 model")
    ap.add_argument("--threads", type=int, help="passed on to the tools")
    ap.add_argument("--only", default="a,g,b,r,i,c,d,f,z,q,w,n,v,x,m,p,e,k")
    ap.add_argument("--json", type=Path)
    a = ap.parse_args()
    only = a.only.split(",")
    tftf = [(a.bin / "tftf").resolve()]
    common = ["--no-progress", "-q"] + (["--threads", str(a.threads)] if a.threads else [])
    results, passed = {}, []

    def limit(name, key, most):
        if results[name][key] > most:
            passed.append(f"{name}: {key} {results[name][key]} > {most}")

    with tempfile.TemporaryDirectory(prefix="tftf-bench-", dir=a.work) as work:
        work = Path(work)
        model, out = work / "model", work / "out"
        adapter = work / "adapter"
        if {"a", "b", "r", "i", "d"} & set(only):
            write_model(model, a.size // 16)
            warm(model)
        if "a" in only:
            results["a"] = against_cp([*tftf, "dequant-fp8", *common, "-i", model, "-o"], None, out, a.runs)
            limit("a", "ratio", 1.0)
            limit("a", "rss_mib", 48)
        if "b" in only:
            results["b"] = against_cp([*tftf, "passthrough", *common, "-i", model, "-o"], model, out, a.runs)
            limit("b", "ratio", 0.9)
            limit("b", "rss_mib", 48)
        if "r" in only:
            (model / "tokenizer.json").write_text("{}")
            results["r"] = against_cp([*tftf, "colibri", "repack-fp8", *common, "--indir", model, "--outdir"], model, out,
                                      a.runs)
            limit("r", "ratio", 0.9)
            limit("r", "rss_mib", 64)
        if "i" in only:
            results["i"] = against_cp([*tftf, "colibri", "convert", *common, "--indir", model, "--outdir"], model, out,
                                      a.runs)
            limit("i", "ratio", 1.2)
            limit("i", "rss_mib", 64)
        if "d" in only:
            bytes_ = write_adapter(adapter, a.size // 16, 16)
            results["d"] = against_cp([*tftf, "dequant-fp8", *common, "--merge-lora", adapter, "-i", model, "-o"], None,
                                      out, a.runs)
            limit("d", "ratio", 1.3)
            limit("d", "rss_mib", 64 + bytes_ / MIB)
            clean(adapter)
        clean(model)
        if "c" in only or "f" in only:
            write_plain_model(model, a.size // 32)
            for name, rank, most in (("c", 16, 0.7), ("f", 128, 1.4)):
                if name not in only:
                    continue
                bytes_ = write_adapter(adapter, a.size // 32, rank)
                results[name] = against_cp([*tftf, "merge-lora", *common, "-a", adapter, "-b", model, "-o"], None, out,
                                           a.runs)
                limit(name, "ratio", most)
                limit(name, "rss_mib", 64 + bytes_ / MIB)
                clean(adapter)
            clean(model)
        if "z" in only:
            write_llama_adapter(adapter, 128)
            warm(adapter)
            runs = []
            for _ in range(a.runs):
                clean(out)
                runs.append(run([*tftf, "adapter", "resize", *common, "--rank", "32", "-i", adapter, "-o", out]))
            results["z"] = {"seconds": round(statistics.median(s for s, _ in runs), 3),
                            "rss_mib": round(max(r for _, r in runs) / MIB, 1)}
            limit("z", "seconds", 3)
            limit("z", "rss_mib", 190)
            clean(out)
            clean(adapter)
        dequant = [*tftf, "dequant", "--dtype", "bfloat16", *common, "-i", model, "-o"]
        for name, awq in (("q", False), ("w", True)):
            if name not in only and (awq or "p" not in only):
                continue
            write_qweight_model(model, a.size // 32, awq)
            warm(model)
            if name in only:
                results[name] = against_cp(dequant, None, out, a.runs)
                limit(name, "rss_mib", 48)
                limit(name, "ratio", 1.2)
            if not awq and "p" in only:
                results["p"] = against_cp([*tftf, "repack", "--to", "awq", *common, "-i", model, "-o"], None, out, a.runs)
                limit("p", "rss_mib", 64)
            clean(model)
        for name, layout in (("n", "nf4"), ("v", "nvfp4"), ("x", "gpt-oss"), ("m", "mlx")):
            if name in only:
                write_nibble_model(model, a.size // 32, layout)
                warm(model)
                results[name] = against_cp(dequant, None, out, a.runs)
                limit(name, "rss_mib", 48)
                limit(name, "ratio", 1.0)
                clean(model)
        if "g" in only:
            write_model(model, 1, shards=1, rows=65536, columns=65536, sparse=True)
            seconds, rss = run([*tftf, "dequant-fp8", *common, "-i", model, "-o", out])
            results["g"] = {"seconds": round(seconds, 3), "rss_mib": round(rss / MIB, 1)}
            limit("g", "rss_mib", 48)
            clean(out)
            clean(model)
        if "e" in only:
            subprocess.run([sys.executable, TOOLS / "make_sparse_checkpoint.py", model], check=True, stdout=subprocess.DEVNULL)
            opened, planned = [], []
            for _ in range(a.runs):
                opened.append(run([*tftf, "info", "--no-progress", "--json", model]))
                planned.append(run([*tftf, "dequant-fp8", *common, "--dry-run", "-i", model, "-o", out]))
            results["e"] = {"seconds": round(statistics.median(s for s, _ in planned), 3),
                            "rss_mib": round(max(r for _, r in planned) / MIB, 1),
                            "info_seconds": round(statistics.median(s for s, _ in opened), 3),
                            "info_rss_mib": round(max(r for _, r in opened) / MIB, 1)}
            clean(model)
        if "k" in only:
            for bench in sorted(a.bin.glob("*_bench")):
                print(f"{bench.name}:", flush=True)
                figures = work / "figures.json"
                subprocess.run([bench, "--json", figures], check=True)
                results[bench.name] = json.loads(figures.read_text())

    titles = {"a": "dequant-fp8 / cp of its output", "b": "passthrough / cp",
              "r": "colibri repack-fp8 / cp", "c": "merge-lora r=16 / cp",
              "d": "dequant-fp8 --merge-lora / cp", "f": "merge-lora r=128 / cp",
              "z": "adapter resize 128 to 32, 224 modules",
              "q": "dequant of GPTQ / cp of its output", "w": "dequant of AWQ / cp of its output",
              "n": "dequant of NF4 / cp of its output", "v": "dequant of NVFP4 / cp of its output",
              "x": "dequant of gpt-oss / cp of its output", "m": "dequant of MLX / cp of its output",
              "p": "repack of GPTQ to AWQ / cp",
              "i": "colibri convert to int4 / cp", "g": "one tensor of 4 GiB", "e": "plan of 92,000 tensors"}
    print(f"{'':38}{'seconds':>9}{'cp':>9}{'ratio':>8}{'RSS MiB':>9}")
    for name, title in titles.items():
        if name in results:
            row = results[name]
            print(f"{title:38}{row['seconds']:>9}{row.get('cp_seconds', ''):>9}{row.get('ratio', ''):>8}{row['rss_mib']:>9}")
    if a.json:
        a.json.write_text(json.dumps(results, indent=2) + "\n")
    for failure in passed:
        print(f"limit passed: {failure}")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
