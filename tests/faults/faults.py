#!/usr/bin/env python3
"""Lets every file operation of every writing command fail once, and sees what is left.

    faults.py --bin DIR [--only COMMAND ...] [--class CLASS ...] [-v]

A shim (fault_shim.c, compiled here) lets the n-th call of a class fail, be short, be interrupted, or kills the
process; n goes up until a run is over before its n-th call. After each run:

- it ended with status 0 and the bytes of an undisturbed run, or with another status and a message that names the file
  and the reason (unless it was killed);
- nothing incomplete stands under a final name;
- the same command run again gives the bytes of an undisturbed run, and leaves nothing else behind.

Prints `N passed, M failed`; a case is one disturbed run.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
TFTF = TOP / "tests/golden/tftf/inputs"
COLIBRI = TOP / "tests/golden/colibri/cases"
LIMIT = 400  # calls of one class in one run: more than any of the commands makes

# What can happen to the calls of each class.
FAULTS = {
    "read": ["EIO", "short", "EINTR"],
    "write": ["EIO", "ENOSPC", "short", "EINTR", "kill"],
    "sync": ["EIO", "EINTR", "kill"],
    "rename": ["EIO", "ENOSPC", "kill"],
    "stat": ["EIO"],
    "open": ["EIO", "EACCES", "EINTR"],
    "list": ["EIO"],
    "remove": ["EIO", "kill"],
    "make": ["EIO", "kill"],
}
WRITING = ["read", "write", "sync", "rename", "remove", "make"]
REASONS = {"EIO": ["input/output error"], "EACCES": ["permission denied"], "ENOSPC": ["no space left", "is full"]}
HARMLESS = ("short", "EINTR")


@dataclass
class Command:
    """What is run in a folder that holds the `inputs`, and what is run there `before`."""
    name: str
    words: list
    inputs: dict
    classes: list = field(default_factory=lambda: list(FAULTS))
    before: list = field(default_factory=list)  # (words, fault or None), run one after the other


SHARDED = {"in": TFTF / "sharded"}
SHARDS = ["passthrough", "-i", "in", "-o", "out", "--max-shard-size", "100"]
EXPERTS = TOP / "tests/golden/experts/models"
MERGED = {"in": TFTF / "base_f32", "adapter": TFTF / "ad_basic"}
COMMANDS = [
    Command("passthrough", SHARDS, SHARDED),
    Command("merge-lora", ["merge-lora", "-b", "in", "-a", "adapter", "-o", "out"], MERGED),
    Command("rans-repack", ["colibri", "rans-repack", "--indir", "in", "--outdir", "out"],
            {"in": COLIBRI / "rans-repack/in"}),
    Command("overwrite", [*SHARDS, "--overwrite"], SHARDED,
            before=[(["passthrough", "-i", "in", "-o", "out", "--dtype", "float64", "--max-shard-size", "50"], None)]),
    Command("continued", SHARDS, SHARDED, before=[(SHARDS, ("rename", 2, "kill"))]),
    Command("dry-run", [*SHARDS, "--dry-run"], SHARDED),
    # The way to the plan is the same as above.
    Command("passthrough-file", ["passthrough", "-i", "in", "-o", "out/one.safetensors"], SHARDED, WRITING),
    Command("dequant-fp8", ["dequant-fp8", "-i", "in", "-o", "out"], {"in": TFTF / "fp8_b128"}, WRITING),
    Command("dequant", ["dequant", "-i", "in", "-o", "out/one.safetensors"],
            {"in": TOP / "docs/sample/qwen3-tiny-fp8"}, WRITING),
    Command("quantize", ["quantize", "-i", "in", "-o", "out", "--to", "fp8-block"], {"in": TFTF / "base_bf16"}, WRITING),
    Command("repack", ["repack", "-i", "in", "-o", "out", "--to", "colibri-fp8"],
            {"in": TOP / "docs/sample/qwen3-tiny-fp8"}, WRITING),
    Command("run", ["run", "-i", "in", "-o", "out", "--max-shard-size", "200", "--merge-lora", "adapter",
                    "--dtype-cast", "float16"], MERGED, WRITING),
    Command("convert", ["colibri", "convert", "--indir", "in", "--outdir", "out", "--n-layers", "2"],
            {"in": COLIBRI / "src-small/in"}, WRITING),
    Command("repack-fp8", ["colibri", "repack-fp8", "--indir", "in", "--outdir", "out", "--n-layers", "2"],
            {"in": COLIBRI / "src-small/in"}, WRITING),
    Command("adapter-convert", ["adapter", "convert", "-i", "in", "--to", "kohya", "-o", "out"],
            {"in": TOP / "tests/golden/adapters/inputs/peft_sd_unet"}, WRITING),
    Command("adapter-resize", ["adapter", "resize", "-i", "in", "--rank", "2", "-o", "out"],
            {"in": TOP / "tests/golden/adapters/inputs/resize_peft"}, WRITING),
    Command("adapter-combine", ["adapter", "combine", "-i", "in", "-w", "1", "-i", "other", "-w", "0.5", "--mode", "svd",
                                "--rank", "3", "-o", "out"],
            {"in": TOP / "tests/golden/adapters/inputs/combine-svd_a",
             "other": TOP / "tests/golden/adapters/inputs/combine-svd_b"}, WRITING),
    Command("adapter-extract", ["adapter", "extract", "--original", "before.safetensors", "--tuned",
                                "after.safetensors", "--rank", "2", "-o", "out"],
            {"before.safetensors": TOP / "tests/golden/adapters/inputs/extract_original.safetensors",
             "after.safetensors": TOP / "tests/golden/adapters/inputs/extract_tuned.safetensors"}, WRITING),
    Command("graft", ["graft", "-i", "in", "--from", "source", "--missing", "-o", "out"],
            {"in": EXPERTS / "graft-llava-lost", "source": EXPERTS / "llava-v4"}),
    Command("fmt4-to-fmt2", ["colibri", "fmt4-to-fmt2", "--indir", "in", "--outdir", "out"],
            {"in": COLIBRI / "f42-small/in"}, WRITING),
]


def is_ours(name):
    return name.endswith((".tftf-part", ".tftf-journal"))


def contents(folder):
    """{name: bytes} of a folder that need not be there."""
    if not folder.is_dir():
        return {}
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


class Bench:
    """One command: its inputs, what it starts from, and what it makes undisturbed."""

    def __init__(self, command, program, shim, scratch):
        self.command = command
        self.program = program
        self.shim = shim
        self.place = scratch / command.name
        self.place.mkdir()
        for name, source in command.inputs.items():
            (shutil.copytree if source.is_dir() else shutil.copy)(source, self.place / name)
        self.start = self.place / "start"
        self.start.mkdir()
        for words, fault in command.before:
            self.execute(self.start, words, fault)
        self.old = {name: data for name, data in contents(self.start / "out").items() if not is_ours(name)}
        whole = self.folder("whole")
        done = self.execute(whole, command.words)
        if done.returncode != 0:
            raise SystemExit(f"{command.name}: {done.stderr}")
        self.right = contents(whole / "out")

    def folder(self, name):
        """A working folder with the inputs and the state a run starts from."""
        folder = self.place / name
        folder.mkdir()
        for source in self.command.inputs:
            os.symlink("../" + source, folder / source)
        if self.command.before:
            shutil.copytree(self.start / "out", folder / "out")
        elif "out/one.safetensors" in self.command.words:
            (folder / "out").mkdir()
        return folder

    def execute(self, folder, words, fault=None, report=None):
        for source in self.command.inputs:
            if not (folder / source).exists():
                os.symlink("../" + source, folder / source)
        environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(self.shim), "LC_ALL": "C"}
        if fault is not None:
            environment.update(FAULT_ROOT=str(self.place), FAULT_CLASS=fault[0], FAULT_NUMBER=str(fault[1]),
                               FAULT_KIND=fault[2])
        if report is not None:
            environment["FAULT_REPORT"] = str(report)
        return subprocess.run([self.program, *words, "--threads", "1", "--quiet"], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", timeout=60, check=False)

    def disturb(self, fault):
        """None when the run was over before its n-th call; else what is wrong, a list."""
        label = "-".join(str(part) for part in fault)
        folder = self.folder(label)
        report = self.place / (label + ".report")
        run = self.execute(folder, self.command.words, fault, report)
        problems = []
        if report.exists():
            call, path = report.read_text().splitlines()[0].split(" ", 1)
            problems = self.judge(fault, run, folder, path)
            problems = [f"{self.command.name} {label} {call} {path}: {p}" for p in problems]
            report.unlink()
        else:
            problems = None
        shutil.rmtree(folder)
        return problems

    def judge(self, fault, run, folder, path):
        kind = fault[2]
        problems = []
        left = contents(folder / "out")
        if kind == "kill":
            if run.returncode != -9:
                problems.append(f"status {run.returncode} of a run that was to be killed")
        elif run.returncode == 0:
            if left != self.right:
                problems.append(f"status 0, and the output is another one: {differences(left, self.right)}")
        elif kind in HARMLESS:
            problems.append(f"status {run.returncode}: {run.stderr}")
        else:
            name = Path(path).name.removesuffix(".tftf-part")
            said = run.stderr.lower()
            if run.returncode < 0:
                problems.append(f"ended by signal {-run.returncode}")
            if name.lower() not in said:
                problems.append(f"the message does not name the file: {run.stderr!r}")
            if not any(reason in said for reason in REASONS[kind]):
                problems.append(f"the message does not give the reason: {run.stderr!r}")
        problems += self.incomplete(left)
        # A run may be killed after all is done: then there is nothing to repeat.
        if run.returncode != 0 and not (kind == "kill" and left == self.right):
            again = self.execute(folder, self.command.words)
            if again.returncode != 0:
                problems.append(f"the repeat fails: {again.stderr!r}")
            elif contents(folder / "out") != self.right:
                problems.append(f"the repeat gives others: {differences(contents(folder / 'out'), self.right)}")
        return problems

    def incomplete(self, left):
        problems = []
        finals = {name: data for name, data in left.items() if not is_ours(name)}
        for name, data in finals.items():
            if data != self.right.get(name) and data != self.old.get(name):
                problems.append(f"incomplete {name} under its final name")
        for index in finals:
            if not index.endswith(".index.json"):
                continue
            whole = self.right if finals[index] == self.right.get(index) else self.old
            for name, data in whole.items():
                if name.endswith(".safetensors") and finals.get(name) != data:
                    problems.append(f"{index} is there, and its {name} is not")
        return problems

    def go(self, kind_of_call, what):
        """All n of one kind of fault: (number of runs, problems)."""
        problems = []
        for number in range(1, LIMIT):
            found = self.disturb((kind_of_call, number, what))
            if found is None:
                return number - 1, problems
            problems.append(found)
        return LIMIT, problems + [[f"{self.command.name}: more than {LIMIT} calls of the class {kind_of_call}"]]


def differences(got, want):
    names = sorted(set(got) | set(want))
    return ", ".join(f"{name} {'lacks' if name not in got else 'is too much' if name not in want else 'differs'}"
                     for name in names if got.get(name) != want.get(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--class", nargs="*", default=list(FAULTS), dest="classes")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="tftf-faults-"))
    try:
        shim = scratch / "fault_shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, Path(__file__).with_name("fault_shim.c"), "-ldl"],
                       check=True)
        program = options.bin.resolve() / "tftf"
        benches = [Bench(command, program, shim, scratch) for command in COMMANDS
                   if not options.only or command.name in options.only]
        runs = 0
        failed = 0
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
            jobs = [(bench, call, what, pool.submit(bench.go, call, what)) for bench in benches
                    for call in bench.command.classes if call in options.classes for what in FAULTS[call]]
            for bench, call, what, job in jobs:
                count, problems = job.result()
                runs += count
                bad = [found for found in problems if found]
                failed += len(bad)
                for found in bad:
                    print("\n".join(found))
                if options.verbose:
                    print(f"{bench.command.name} {call} {what}: {count} runs, {len(bad)} bad")
        print(f"{runs - failed} passed, {failed} failed")
        return 1 if failed or not runs else 0
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
