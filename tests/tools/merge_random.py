#!/usr/bin/env python3
"""Merges random adapters of every method with the built program and compares with PEFT's formulas in binary64.

    merge_random.py --bin DIR [--count N] [--seed S] [--keep DIR] [-v]

Each case is a small base, an adapter of one method with random settings, and the weights that PEFT's own arithmetic
gives, worked out here from definitions, element by element, in plain Python. Adapters for which there is no formula, or
whose configuration leaves something open, must be refused, and the refusal must name the reason. Prints
`N passed, M failed`; a failing case is told with its seed. The same seed makes the same cases on every machine.
"""
import argparse
import json
import math
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDING = {"F64": 2.0 ** -44, "F32": 2.0 ** -18, "F16": 2.0 ** -9, "BF16": 2.0 ** -6}


# ---------------------------------------------------------------- tensors: flat lists with a shape
class T:
    def __init__(self, shape, values):
        self.shape, self.v = list(shape), list(values)
        assert len(self.v) == math.prod(shape), (shape, len(self.v))

    def __getitem__(self, index):
        at = 0
        for n, i in zip(self.shape, index):
            at = at * n + i
        return self.v[at]

    def copy(self):
        return T(self.shape, self.v)

    def reshape(self, *shape):
        return T(shape, self.v)

    def t(self):
        rows, cols = self.shape
        return T([cols, rows], [self.v[i * cols + j] for j in range(cols) for i in range(rows)])


def tabulate(shape, f):
    def walk(prefix, rest):
        if not rest:
            yield f(*prefix)
        else:
            for i in range(rest[0]):
                yield from walk(prefix + (i,), rest[1:])
    return T(shape, walk((), tuple(shape)))


def matmul(a, b):
    (n, k), m = a.shape, b.shape[1]
    assert b.shape[0] == k
    return tabulate([n, m], lambda i, j: math.fsum(a[i, x] * b[x, j] for x in range(k)))


def add(a, b, s=1.0):
    assert len(a.v) == len(b.v), (a.shape, b.shape)
    return T(a.shape, [x + s * y for x, y in zip(a.v, b.v)])


def times(a, b):
    return T(a.shape, [x * y for x, y in zip(a.v, b.v)])


def scaled(a, s):
    return T(a.shape, [x * s for x in a.v])


def identity(n):
    return tabulate([n, n], lambda i, j: float(i == j))


def kron(a, b):
    """torch.kron: the shorter shape gets ones in front."""
    n = max(len(a.shape), len(b.shape))
    a = T([1] * (n - len(a.shape)) + a.shape, a.v)
    b = T([1] * (n - len(b.shape)) + b.shape, b.v)
    shape = [x * y for x, y in zip(a.shape, b.shape)]
    return tabulate(shape, lambda *i: a[tuple(p // q for p, q in zip(i, b.shape))] *
                    b[tuple(p % q for p, q in zip(i, b.shape))])


def solve_right(a, b):
    """X with X a = b."""
    n = a.shape[0]
    left, right = a.t(), b.t()
    m = [[left[i, j] for j in range(n)] + [right[i, j] for j in range(n)] for i in range(n)]
    for c in range(n):
        p = max(range(c, n), key=lambda r: abs(m[r][c]))
        m[c], m[p] = m[p], m[c]
        m[c] = [x / m[c][c] for x in m[c]]
        for r in range(n):
            if r != c and m[r][c]:
                m[r] = [x - m[r][c] * y for x, y in zip(m[r], m[c])]
    return tabulate([n, n], lambda i, j: m[j][n + i])


# ---------------------------------------------------------------- files
def round_to(dtype, x):
    if dtype == "F64":
        return x
    if dtype == "F32":
        return struct.unpack("<f", struct.pack("<f", x))[0]
    if dtype == "F16":
        return struct.unpack("<e", struct.pack("<e", x))[0]
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


def pack(dtype, values):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack(f"<{len(values)}{dict(F64='d', F32='f', F16='e')[dtype]}", *values)


def unpack(dtype, data):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    size, code = dict(F64=(8, "d"), F32=(4, "f"), F16=(2, "e"))[dtype]
    return list(struct.unpack(f"<{len(data) // size}{code}", data))


def write_file(path, tensors):
    header, at, blobs = {"__metadata__": {"format": "pt"}}, 0, []
    for name, (dtype, t) in tensors.items():
        blob = pack(dtype, t.v)
        header[name] = {"dtype": dtype, "shape": t.shape, "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_file(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    return {name: (h["dtype"], T(h["shape"], unpack(h["dtype"], data[8 + n + h["data_offsets"][0]:8 + n + h["data_offsets"][1]])))
            for name, h in header.items() if name != "__metadata__"}


# ---------------------------------------------------------------- cases
class Case:
    def __init__(self, rng):
        self.r = rng
        self.base, self.adapter, self.want = {}, {}, {}
        self.config = {"peft_type": "LORA"}
        self.model = {"model_type": "x"}
        self.options = []
        self.refused = None  # what the refusal must say
        self.about = ""

    def noise(self, shape, dtype, spread=1.0):
        return T(shape, [round_to(dtype, self.r.uniform(-spread, spread)) for _ in range(math.prod(shape))])

    def weight(self, name, shape, dtype=None):
        dtype = dtype or self.r.choice(["F32", "F32", "F64", "BF16", "F16"])
        t = self.noise(shape, dtype)
        self.base[name] = (dtype, t)
        self.want[name] = t
        return t

    def factor(self, name, shape, spread=1.0, dtype=None):
        dtype = dtype or self.r.choice(["F32", "F32", "BF16", "F16"])
        t = self.noise(shape, dtype, spread)
        self.adapter["base_model.model." + name] = (dtype, t)
        return t

    def changes(self, name, t):
        assert len(t.v) == len(self.want[name].v), (name, t.shape)
        self.want[name] = T(self.want[name].shape, t.v)


def dim(r, low=2, high=7):
    return r.randint(low, high)


def two_sizes(r):
    a = dim(r)
    b = dim(r)
    return (a, b) if a != b else (a, b + 1)


def lora_scale(c, r):
    alpha = c.r.choice([1, 3, 8, 16])
    c.config.update(r=r, lora_alpha=alpha)
    if c.r.random() < 0.3:
        c.config["use_rslora"] = True
        return alpha / math.sqrt(r)
    return alpha / r


def user_scale(c):
    if c.r.random() < 0.2:
        s = c.r.choice([0.5, -1.0, 2.0])
        c.options += ["--scale", str(s)]
        return s
    return 1.0


def norm_rows(t):
    rows = t.shape[0]
    cols = len(t.v) // rows
    return [math.sqrt(math.fsum(x * x for x in t.v[i * cols:(i + 1) * cols])) for i in range(rows)]


def with_dora(c, name, v):
    """Rows of v (out first) brought to the magnitude."""
    m = c.factor(name + ".lora_magnitude_vector", [v.shape[0]], dtype="F32")
    norms = norm_rows(v)
    cols = len(v.v) // v.shape[0]
    return T(v.shape, [m.v[i // cols] / norms[i // cols] * x for i, x in enumerate(v.v)])


def case_lora(c):
    rank = dim(c.r, 1, 4)
    s = lora_scale(c, rank)
    s *= user_scale(c)
    dora = c.r.random() < 0.3
    c.config.update(use_dora=dora, target_modules=["q", "emb", "conv"])
    out, inn = two_sizes(c.r)
    w = c.weight("a.q.weight", [out, inn])
    a, b = c.factor("a.q.lora_A.weight", [rank, inn]), c.factor("a.q.lora_B.weight", [out, rank])
    v = add(w, matmul(b, a), s)
    c.changes("a.q.weight", with_dora(c, "a.q", v) if dora else v)
    if not dora and c.r.random() < 0.3:
        c.config["lora_bias"] = True
        bias = c.weight("a.q.bias", [out])
        c.changes("a.q.bias", add(bias, c.factor("a.q.lora_B.bias", [out]), s))
    if c.r.random() < 0.5:
        vocab, width = two_sizes(c.r)
        w = c.weight("emb.weight", [vocab, width])
        a, b = c.factor("emb.lora_embedding_A", [rank, vocab]), c.factor("emb.lora_embedding_B", [width, rank])
        v = add(w, matmul(b, a).t(), s)
        c.changes("emb.weight", with_dora(c, "emb", v.t()).t() if dora else v)
    if c.r.random() < 0.6:
        kernel = [c.r.choice([1, 2, 3]) for _ in range(c.r.choice([1, 2, 3]))]
        out, inn = dim(c.r, 2, 4), dim(c.r, 2, 4)
        w = c.weight("conv.weight", [out, inn] + kernel)
        a = c.factor("conv.lora_A.weight", [rank, inn] + kernel)
        b = c.factor("conv.lora_B.weight", [out, rank] + [1] * len(kernel))
        v = add(w, matmul(b.reshape(out, rank), a.reshape(rank, len(a.v) // rank)), s)
        c.changes("conv.weight", with_dora(c, "conv", v) if dora else v)
    c.weight("a.other.weight", [2, 3])


def case_lora_patterns(c):
    c.config.update(r=2, lora_alpha=4, target_modules=["q", "v"], rank_pattern={"layers.1.q": 3, "v": 1},
                    alpha_pattern={"layers.0.q": 7})
    if c.r.random() < 0.5:
        c.config["exclude_modules"] = ["layers.2.q"]
    layers = c.r.choice([None, [], [1], 1, [0, 2]])
    if layers is not None:
        c.config["layers_to_transform"] = layers
        c.config["target_modules"].append("model.layers.0.v")
    for layer in range(3):
        for word in "qv":
            module = f"model.layers.{layer}.{word}"
            rank = 3 if (layer, word) == (1, "q") else 1 if word == "v" else 2
            alpha = 7 if (layer, word) == (0, "q") else 4
            w = c.weight(module + ".weight", [4, 3])
            a, b = c.factor(module + ".lora_A.weight", [rank, 3]), c.factor(module + ".lora_B.weight", [4, rank])
            if (layer, word) == (2, "q") and "exclude_modules" in c.config:
                continue
            listed = [layers] if isinstance(layers, int) else layers
            if listed and layer not in listed and (layer, word) != (0, "v"):
                continue
            c.changes(module + ".weight", add(w, matmul(b, a), alpha / rank))


def case_gpt2(c):
    """Square weights of Conv1D layers and of Linear ones, whatever the flag says."""
    n = dim(c.r, 3, 5)
    s = lora_scale(c, 2)
    c.model = {"model_type": "gpt2"}
    c.config.update(target_modules=["c_proj", "c_attn", "lm_head"], fan_in_fan_out=c.r.random() < 0.5)
    for module, shape, turned in (("h.0.attn.c_proj", [n, n], True), ("h.0.attn.c_attn", [n, 3 * n], True),
                                  ("lm_head", [n, n], False)):
        w = c.weight(module + ".weight", shape)
        out, inn = (shape[1], shape[0]) if turned else shape
        a, b = c.factor(module + ".lora_A.weight", [2, inn]), c.factor(module + ".lora_B.weight", [out, 2])
        delta = matmul(b, a)
        c.changes(module + ".weight", add(w, delta.t() if turned else delta, s))


def case_square(c):
    """Square weights without any word about them."""
    n = dim(c.r, 3, 5)
    flag = c.r.random() < 0.5
    s = lora_scale(c, 2)
    several = c.r.random() < 0.5
    modules = ["b.c_proj", "b.other"] if several else ["b.c_proj"]
    c.config.update(target_modules=["c_proj", "other"], fan_in_fan_out=flag)
    c.model = None
    told = c.r.random() < 0.3
    if several and not told:
        c.refused = "--linear-axes"
    if told:
        c.options += ["--linear-axes", "in-out" if flag else "out-in"]
    for module in modules:
        w = c.weight(module + ".weight", [n, n])
        delta = matmul(c.factor(module + ".lora_B.weight", [n, 2]), c.factor(module + ".lora_A.weight", [2, n]))
        c.changes(module + ".weight", add(w, delta.t() if flag else delta, s))


def stacked(c, module, nesting, experts, rank, inn, out):
    path = module + ".base_layer" * nesting
    return c.factor(path + ".lora_A.weight", [experts * rank, inn]), c.factor(path + ".lora_B.weight", [out, rank * experts])


def expert_delta(a, b, experts, rank, e):
    a_e = tabulate([rank, a.shape[1]], lambda k, i: a[e * rank + k, i])
    b_e = tabulate([b.shape[0], rank], lambda o, k: b[o, k * experts + e])
    return matmul(b_e, a_e)


def case_experts(c):
    experts, rank, half, hidden = 2 + c.r.randint(0, 1), dim(c.r, 1, 2), dim(c.r, 2, 4), dim(c.r, 2, 4) * 2
    if c.r.random() < 0.4:
        hidden = half if c.r.random() < 0.5 else 2 * half  # square ones
    in_out, turned = c.r.random() < 0.4, c.r.random() < 0.5
    s = lora_scale(c, rank)
    c.config.update(target_modules=None, target_parameters=["experts.gate_up_proj", "experts.down_proj"])
    module = "layers.0.mlp.experts"
    for nesting, word, out, inn in ((1, "gate_up_proj", 2 * half, hidden), (0, "down_proj", hidden, half)):
        x, y = (inn, out) if in_out else (out, inn)
        w = c.weight(f"{module}.{word}", [experts, x, y])
        a, b = stacked(c, module, nesting, experts, rank, *((x, y) if turned else (y, x)))
        values = list(w.v)
        for e in range(experts):
            d = expert_delta(a, b, experts, rank, e)
            d = d.t() if turned else d
            assert d.shape == [x, y]
            for i, v in enumerate(d.v):
                values[e * x * y + i] += s * v
        c.changes(f"{module}.{word}", T(w.shape, values))
    # Both ways round fit, or the other pair does, only where everything is square.
    if all(w.shape[1] == w.shape[2] for _, w in c.base.values()):
        c.refused = "--expert-axes"


def case_one_square_stack(c):
    experts, n, rank = 3, dim(c.r, 2, 4), 2
    s = lora_scale(c, rank)
    c.config.update(target_modules=None, target_parameters=["experts.down_proj"])
    w = c.weight("x.experts.down_proj", [experts, n, n])
    a, b = stacked(c, "x.experts", 0, experts, rank, n, n)
    turned = False
    way = c.r.choice(["silent", "option", "version", "old"])
    if way == "option":
        turned = c.r.random() < 0.5
        c.options += ["--expert-axes", "in-out" if turned else "out-in"]
    elif way == "version":
        c.model = {"model_type": c.r.choice(["qwen3_moe", "mixtral"])}
        c.config["peft_version"] = c.r.choice(["0.19.1", "0.20.1.dev0@UNKNOWN"])
    else:
        if way == "old":
            c.model = {"model_type": "qwen3_moe"}
            c.config["peft_version"] = c.r.choice(["0.18.1", "0.19.0", "0.19.1.dev0"])
        c.refused = "--expert-axes"
    values = list(w.v)
    for e in range(experts):
        d = expert_delta(a, b, experts, rank, e)
        for i, v in enumerate((d.t() if turned else d).v):
            values[e * n * n + i] += s * v
    c.changes("x.experts.down_proj", T(w.shape, values))


def case_split_experts(c):
    experts, rank, half, hidden = 3, 2, dim(c.r, 2, 4), 5
    woven = c.r.random() < 0.3
    s = lora_scale(c, rank)
    c.model = {"model_type": "gpt_oss" if woven else "qwen3_moe"}
    c.config.update(target_modules=None, target_parameters=["experts.gate_up_proj", "experts.down_proj"])
    module, turned = "layers.0.mlp.experts", c.r.random() < 0.4
    gate, up, down = c.r.choice([("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2")])
    pairs = []
    for nesting, out, inn in ((1, 2 * half, hidden), (0, hidden, half)):
        pairs.append(stacked(c, module, nesting, experts, rank, *((out, inn) if turned else (inn, out))))
    for e in range(experts):
        d = [expert_delta(a, b, experts, rank, e) for a, b in pairs]
        d = [x.t() if turned else x for x in d]
        rows = [d[0].v[i * hidden:(i + 1) * hidden] for i in range(2 * half)]
        cut = (rows[0::2], rows[1::2]) if woven else (rows[:half], rows[half:])
        for part, delta, shape in ((gate, cut[0], [half, hidden]), (up, cut[1], [half, hidden]), (down, None, [hidden, half])):
            name = f"{module}.{e}.{part}.weight"
            w = c.weight(name, shape)
            c.changes(name, add(w, T(shape, sum(delta, []) if delta is not None else d[1].v), s))
    if c.r.random() < 0.3:
        c.refused = "--fit"
    else:
        c.options.append("--fit")


def kernel_of(c):
    return [c.r.choice([1, 2, 3]) for _ in range(c.r.choice([0, 1, 2]))]


def case_loha(c):
    rank, alpha = dim(c.r, 1, 3), c.r.choice([1, 4, 6])
    kernel = kernel_of(c)
    out, inn = dim(c.r, 2, 4), dim(c.r, 2, 4)
    c.config = {"peft_type": "LOHA", "r": rank, "alpha": alpha, "target_modules": ["m"]}
    s = alpha / rank * user_scale(c)
    w = c.weight("x.m.weight", [out, inn] + kernel)
    k = math.prod(kernel)
    tucker = bool(kernel) and c.r.random() < 0.5
    made = []
    for n in "12":
        if not tucker:
            a, b = c.factor(f"x.m.hada_w{n}_a", [out, rank]), c.factor(f"x.m.hada_w{n}_b", [rank, inn * k])
            made.append(matmul(a, b))
        else:
            core = kernel if len(kernel) == 2 else kernel + [1]
            t = c.factor(f"x.m.hada_t{n}", [rank, rank] + core)
            a, b = c.factor(f"x.m.hada_w{n}_a", [rank, out]), c.factor(f"x.m.hada_w{n}_b", [rank, inn])
            made.append(tabulate([out, inn] + core, lambda p, q, x, y, a=a, b=b, t=t: math.fsum(
                t[i, j, x, y] * b[j, q] * a[i, p] for i in range(rank) for j in range(rank))))
    c.changes("x.m.weight", add(w, times(*made), s))


def case_lokr(c):
    rank, alpha = dim(c.r, 1, 3), c.r.choice([1, 4, 6])
    kernel = [c.r.choice([1, 2, 3]) for _ in range(c.r.choice([0, 1, 2, 3]))]
    a, b, d, e = (dim(c.r, 1, 3) for _ in range(4))
    c.config = {"peft_type": "LOKR", "r": rank, "alpha": alpha, "target_modules": ["m"]}
    s = alpha / rank * user_scale(c)
    w = c.weight("x.m.weight", [a * d, b * e] + kernel)
    if c.r.random() < 0.5:
        w1 = c.factor("x.m.lokr_w1", [a, b])
    else:
        w1 = matmul(c.factor("x.m.lokr_w1_a", [a, rank]), c.factor("x.m.lokr_w1_b", [rank, b]))
    form = c.r.choice(["whole", "product"] + (["tucker"] if kernel else []))
    if form == "whole":
        w2 = c.factor("x.m.lokr_w2", [d, e] + kernel)
    elif form == "product":
        w2 = matmul(c.factor("x.m.lokr_w2_a", [d, rank]), c.factor("x.m.lokr_w2_b", [rank, e * math.prod(kernel)]))
    else:
        core = kernel + [1] if len(kernel) == 1 else kernel
        t = c.factor("x.m.lokr_t2", [rank, rank] + core)
        p, q = c.factor("x.m.lokr_w2_a", [rank, d]), c.factor("x.m.lokr_w2_b", [rank, e])
        if len(kernel) == 3:
            c.refused = "no formula"
            return
        w2 = tabulate([d, e] + core, lambda o, i, x, y: math.fsum(
            t[m, n, x, y] * p[m, o] * q[n, i] for m in range(rank) for n in range(rank)))
    if len(w2.shape) == 4:
        w1 = w1.reshape(a, b, 1, 1)
    c.changes("x.m.weight", add(w, kron(w1, w2), s))


def case_ia3(c):
    c.config = {"peft_type": "IA3", "target_modules": ["up", "down", "conv", "cff"], "feedforward_modules": ["down", "cff"]}
    turned = c.r.random() < 0.3
    c.config["fan_in_fan_out"] = turned
    out, inn = two_sizes(c.r)
    for module in ("x.up", "x.down"):
        ff = module == "x.down"
        w = c.weight(module + ".weight", [inn, out] if turned else [out, inn])
        n = inn if ff else out
        l = c.factor(module + ".ia3_l", [1, n] if ff else [n, 1])
        c.changes(module + ".weight",
                  tabulate(w.shape, lambda i, j, w=w, l=l, ff=ff: w[i, j] * l.v[j if ff != turned else i]))
        bias = c.weight(module + ".bias", [out])
        if not ff:
            c.changes(module + ".bias", times(bias, T([out], l.v)))
    kernel = [c.r.choice([1, 2]) for _ in range(c.r.choice([2, 3]))]
    out, inn = (3, 3) if c.r.random() < 0.4 else two_sizes(c.r)
    for module in ("conv", "cff"):
        ff = module == "cff"
        w = c.weight(module + ".weight", [out, inn] + kernel)
        l = c.factor(module + ".ia3_l", [1, inn if ff else out] + [1] * len(kernel))
        c.changes(module + ".weight", tabulate(w.shape, lambda i, j, *k, w=w, l=l, ff=ff: w[(i, j) + k] * l.v[j if ff else i]))


def case_vera(c):
    rank = dim(c.r, 1, 4)
    c.config = {"peft_type": "VERA", "r": rank, "target_modules": ["m"], "save_projection": True}
    turned = c.r.random() < 0.4
    c.config["fan_in_fan_out"] = turned
    out, inn = two_sizes(c.r)
    a, b = c.noise([rank, inn + 2], "F32"), c.noise([out + 1, rank], "F32")
    c.adapter["base_model.vera_A"], c.adapter["base_model.vera_B"] = ("F32", a), ("F32", b)
    w = c.weight("x.m.weight", [inn, out] if turned else [out, inn])
    lb, ld = c.factor("x.m.vera_lambda_b", [out]), c.factor("x.m.vera_lambda_d", [rank])
    delta = tabulate([out, inn], lambda i, j: math.fsum(lb.v[i] * b[i, k] * ld.v[k] * a[k, j] for k in range(rank)))
    c.changes("x.m.weight", add(w, delta.t() if turned else delta, user_scale(c)))


def skew(values, n):
    upper = iter(values)
    q = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            q[i][j] = next(upper)
            q[j][i] = -q[i][j]
    return T([n, n], sum(q, []))


def cayley(q):
    n = q.shape[0]
    return solve_right(add(identity(n), q), add(identity(n), q, -1.0))


def neumann(q, terms):
    r = identity(q.shape[0])
    if terms > 1:
        r = add(r, q, 2.0)
    if terms > 2:
        power = matmul(q, q)
        r = add(r, power, 2.0)
        for _ in range(3, terms - 1):
            power = matmul(power, q)
            r = add(r, power, 2.0)
        r = add(r, matmul(power, q))
    return r


def block_diagonal(blocks):
    n = blocks[0].shape[0]
    return tabulate([n * len(blocks)] * 2, lambda i, j: blocks[i // n][i % n, j % n] if i // n == j // n else 0.0)


def adjusted(size, n):
    if size >= n:
        return n
    high = next(x for x in range(size, n + 1) if n % x == 0)
    low = next(x for x in range(size, 0, -1) if n % x == 0)
    return low if size - low <= high - size else high


def case_oft(c):
    c.config = {"peft_type": "OFT", "r": 0, "target_modules": ["m"]}
    kind = c.r.choice(["linear", "linear", "conv", "embedding"])
    out, inn = dim(c.r, 2, 4), c.r.choice([4, 6, 8])
    kernel = [2, 2] if kind == "conv" else []
    cols = inn * math.prod(kernel)
    asked = c.r.choice([2, 3, 4, 5, 7])
    b = adjusted(asked, cols)
    c.config["oft_block_size"] = asked
    share = c.config["block_share"] = c.r.random() < 0.3
    rows = 1 if share else cols // b
    w = c.weight("x.m.weight", [out, inn] + kernel)
    word = "oft_embedding_R" if kind == "embedding" else "oft_R"
    r = c.factor(f"x.m.{word}.weight", [rows, b * (b - 1) // 2], 0.3)
    blocks = [skew(r.v[i * b * (b - 1) // 2:(i + 1) * b * (b - 1) // 2], b) for i in range(rows)]
    if c.r.random() < 0.3:
        c.config.update(coft=True, eps=0.05)
        limit = 0.05 / math.sqrt(rows)
        norms = [math.sqrt(math.fsum(x * x for x in q.v)) for q in blocks]
        blocks = [q if n <= limit else scaled(q, limit / n) for q, n in zip(blocks, norms)]
    exact = c.r.random() < 0.4
    terms = c.r.choice([1, 2, 3, 4, 5, 6])
    c.config.update(use_cayley_neumann=not exact, num_cayley_neumann_terms=terms)
    blocks = [cayley(q) if exact else neumann(q, terms) for q in blocks]
    d = block_diagonal(blocks * (cols // b) if share else blocks)
    flat = w.reshape(out, cols)
    c.changes("x.m.weight", matmul(flat, d if kind == "embedding" else d.t()))


def butterfly_permutation(n, b, r, factor):
    if factor == 0:
        return list(range(n))
    size = n // b
    step = size // r
    order = [p for p in range(0, step, 2)] + [p for p in range(1, step, 2)]
    inside = [p * r + k for p in order for k in range(r)]
    return [start + inside[k] for start in range(0, n, size) for k in range(size)]


def case_boft(c):
    factors = c.r.choice([1, 1, 2, 3])
    b = c.r.choice([2, 4]) if factors > 1 else c.r.choice([2, 3, 4])
    blocks = 4 if factors > 1 else dim(c.r, 1, 3)
    inn, out = b * blocks, dim(c.r, 2, 4)
    kernel = [2, 2] if inn % 4 == 0 and c.r.random() < 0.3 else []
    c.config = {"peft_type": "BOFT", "boft_block_size": b, "boft_n_butterfly_factor": factors, "target_modules": ["m"]}
    w = c.weight("x.m.weight", [out, inn // math.prod(kernel)] + kernel)
    r = c.factor("x.m.boft_R", [factors, blocks, b, b], 0.5)
    s = c.factor("x.m.boft_s", [1, out] if kernel else [out, 1])
    whole = None
    for f in range(factors):
        turned = []
        for k in range(blocks):
            q = tabulate([b, b], lambda i, j: 0.5 * (r[f, k, i, j] - r[f, k, j, i]))
            turned.append(cayley(q))
        perm = butterfly_permutation(inn, blocks >> f, b // 2, factors - 1)
        p = tabulate([inn, inn], lambda i, j: float(perm[i] == j))
        m = matmul(p, matmul(block_diagonal(turned), p.t()))
        whole = m if whole is None else matmul(m, whole)
    made = matmul(w.reshape(out, inn), whole.t())
    c.changes("x.m.weight", tabulate([out, inn], lambda i, j: made[i, j] * s.v[i]))


def case_hra(c):
    rank, inn, out = dim(c.r, 1, 4), dim(c.r, 4, 6), dim(c.r, 2, 4)
    kernel = [2, 2] if c.r.random() < 0.3 else []
    gs = c.r.random() < 0.5
    c.config = {"peft_type": "HRA", "r": rank, "apply_GS": gs, "target_modules": ["m"]}
    w = c.weight("x.m.weight", [out, inn] + kernel)
    cols = inn * math.prod(kernel)
    u = c.factor("x.m.hra_u", [cols, rank])
    columns = [[u[i, k] for i in range(cols)] for k in range(rank)]
    done = []
    for column in columns:
        if gs:
            for other in done:
                dot = math.fsum(x * y for x, y in zip(other, column))
                column = [x - dot * y for x, y in zip(column, other)]
        norm = math.sqrt(math.fsum(x * x for x in column))
        done.append([x / norm for x in column])
    h = identity(cols)
    if gs:
        h = tabulate([cols, cols], lambda i, j: float(i == j) - 2 * math.fsum(q[i] * q[j] for q in done))
    else:
        for q in done:
            h = matmul(h, tabulate([cols, cols], lambda i, j: float(i == j) - 2 * q[i] * q[j]))
    c.changes("x.m.weight", matmul(w.reshape(out, cols), h))


def case_miss(c):
    form = c.r.choice([True, "mini", "bat"])
    r = c.r.choice([2, 3])
    out, inn = r * dim(c.r, 1, 3), r * dim(c.r, 1, 3) + (0 if form == "bat" else c.r.randint(0, r - 1))
    c.config = {"peft_type": "MISS", "r": r, "init_weights": form, "target_modules": ["m"]}
    w = c.weight("x.m.weight", [out, inn])
    if form == "bat":
        t = c.factor("x.m.miss_block", [out // r, r, r])
        delta = tabulate([out, inn], lambda i, j: t[i // r, i % r, j % r] + math.fsum(
            w[i, j // r * r + k] * t[i // r, k, j % r] for k in range(r)))
        c.changes("x.m.weight", add(w, delta))
        return
    m = r if form == "mini" else out
    if form == "mini":
        c.config["mini_r"] = m
    block = c.factor("x.m.miss_block", [r, m])
    c.changes("x.m.weight", tabulate([out, inn], lambda i, j: w[i, j] + block[j % r, i % m]))


def case_adalora(c):
    first, rank = 4, c.r.choice([4, 2, 3, 0])
    alpha = c.r.choice([8, 2, 0])
    c.config = {"peft_type": "ADALORA", "init_r": first, "r": 8, "lora_alpha": alpha, "target_modules": ["m"]}
    kernel = [c.r.choice([1, 2]), 2] if c.r.random() < 0.3 else []
    turned = not kernel and c.r.random() < 0.3
    c.config["fan_in_fan_out"] = turned
    if rank != first or c.r.random() < 0.5:
        kept = [True] * rank + [False] * (first - rank)
        c.r.shuffle(kept)
        c.config["rank_pattern"] = {"x.m.lora_E": kept}
    out, inn = two_sizes(c.r)
    w = c.weight("x.m.weight", [inn, out] if turned else [out, inn] + kernel)
    cols = inn * math.prod(kernel)
    a, b, e = c.factor("x.m.lora_A", [rank, cols]), c.factor("x.m.lora_B", [out, rank]), c.factor("x.m.lora_E", [rank, 1])
    delta = tabulate([out, cols], lambda i, j: math.fsum(b[i, k] * a[k, j] * e.v[k] for k in range(rank)))
    s = (alpha if alpha > 0 else rank) / (first + 1e-5) * user_scale(c)
    c.changes("x.m.weight", add(w, delta.t() if turned else delta, s))


def case_saved(c):
    """Layers saved whole, biases, trained tokens, layer norms."""
    kind = c.r.choice(["tokens", "norms", "saved", "bias"])
    if kind == "tokens":
        rows = c.r.sample(range(6), 3)
        c.config = {"peft_type": "TRAINABLE_TOKENS", "token_indices": rows, "target_modules": ["emb"]}
        dtype = c.r.choice(["F32", "BF16"])
        w = c.weight("m.emb.weight", [6, 4], dtype)
        delta = c.factor("m.emb.trainable_tokens_delta", [3, 4], dtype=dtype)
        values = list(w.v)
        for i, row in enumerate(rows):
            values[row * 4:row * 4 + 4] = delta.v[i * 4:i * 4 + 4]
        c.changes("m.emb.weight", T([6, 4], values))
    elif kind == "norms":
        c.config = {"peft_type": "LN_TUNING", "target_modules": ["norm"]}
        for part in ("weight", "bias"):
            c.weight("m.norm." + part, [5], "F32")
            c.changes("m.norm." + part, c.factor("m.norm.ln_tuning_layers." + part, [5], dtype="F32"))
    else:
        c.config.update(r=1, lora_alpha=1, target_modules=["q"], bias="all" if kind == "bias" else "none")
        w = c.weight("q.weight", [3, 4])
        delta = matmul(c.factor("q.lora_B.weight", [3, 1]), c.factor("q.lora_A.weight", [1, 4]))
        c.changes("q.weight", add(w, delta))
        if kind == "bias":
            c.weight("q.bias", [3], "F32")
            c.changes("q.bias", c.factor("q.base_layer.bias", [3], dtype="F32"))
        c.config["modules_to_save"] = ["score"]
        for part, shape in (("weight", [2, 3]), ("bias", [2])):
            c.weight("score." + part, shape, "F32")
            t = c.factor("score." + part, shape, dtype="F32")
            c.changes("score." + part, t)
            if kind == "bias" and part == "bias":
                c.adapter["base_model.model.score.modules_to_save.bias"] = ("F32", t)
                c.adapter["base_model.model.score.original_module.bias"] = ("F32", c.noise(shape, "F32"))


def case_refused(c):
    """What has no formula, or no place."""
    kind = c.r.choice(["grouped", "method", "oft", "aloha", "nowhere", "rank", "whole", "tied", "prefix", "twin"])
    c.config.update(r=1, lora_alpha=1, target_modules=["q"])
    if kind == "grouped":
        c.weight("q.weight", [4, 2, 3])
        c.factor("q.lora_A.weight", [1, 4, 3])
        c.factor("q.lora_B.weight", [4, 1, 1])
        c.refused = "groups"
    elif kind == "method":
        c.config["peft_type"] = c.r.choice(["FOURIERFT", "VBLORA", "POLY", "XLORA", "PREFIX_TUNING"])
        c.weight("q.weight", [2, 2])
        c.factor("q.lora_A.weight", [1, 2])
        c.refused = "cannot be merged"
    elif kind == "oft":
        c.config = {"peft_type": c.r.choice(["OFT", "BOFT", "HRA", "MISS"]), "target_modules": ["c_proj"],
                    "fan_in_fan_out": True, "r": 2}
        c.model = {"model_type": "gpt2"}
        c.weight("c_proj.weight", [4, 4])
        name, shape = {"OFT": ("oft_R.weight", [2, 1]), "BOFT": ("boft_R", [1, 2, 2, 2]), "HRA": ("hra_u", [4, 2]),
                       "MISS": ("miss_block", [2, 4])}[c.config["peft_type"]]
        if c.config["peft_type"] == "OFT":
            c.config.update(r=0, oft_block_size=2)
        if c.config["peft_type"] == "BOFT":
            c.factor("c_proj.boft_s", [4, 1])
        c.factor("c_proj." + name, shape)
        c.refused = "PEFT has no"
    elif kind == "aloha":
        c.config["alora_invocation_tokens"] = [1, 2]
        c.weight("q.weight", [2, 2])
        c.factor("q.lora_A.weight", [1, 2])
        c.factor("q.lora_B.weight", [2, 1])
        c.refused = "aLoRA"
    elif kind == "nowhere":
        c.config.update(target_parameters=["experts.gate_up_proj"], target_modules=["q"])
        c.weight("q.weight", [2, 2])
        c.factor("q.lora_A.weight", [1, 2])
        c.factor("q.lora_B.weight", [2, 1])
        c.factor("mlp.experts.lora_A.weight", [2, 2])
        c.factor("mlp.experts.lora_B.weight", [4, 2])
        c.refused = "have no weight"
    elif kind == "rank":
        c.weight("q.weight", [3, 2])
        c.factor("q.lora_A.weight", [2, 2])
        c.factor("q.lora_B.weight", [3, 2])
        c.refused = "has rank 2"
    elif kind == "whole":
        c.config = None
        c.weight("q.weight", [3, 2])
        c.adapter["q.weight"] = ("F32", c.noise([3, 2], "F32"))
        c.refused = "is no adapter"
    elif kind == "tied":
        c.model = {"model_type": "qwen2", "tie_word_embeddings": True}
        c.config["target_modules"] = ["lm_head"]
        c.weight("model.embed_tokens.weight", [4, 3])
        c.factor("lm_head.lora_A.weight", [1, 3])
        c.factor("lm_head.lora_B.weight", [4, 1])
        c.refused = "--untie-head"
    elif kind == "prefix":
        c.weight("model.language_model.layers.0.q.weight", [4, 3])
        c.factor("model.layers.0.q.lora_A.weight", [1, 3])
        c.factor("model.layers.0.q.lora_B.weight", [4, 1])
        c.refused = "--rename-adapter '^model\\.' 'model.language_model.'"
    else:
        c.weight("q.weight", [4, 3])
        c.factor("q.lora_A.weight", [1, 3])
        c.refused = "has no twin"


MAKERS = [case_lora, case_lora, case_lora, case_lora_patterns, case_gpt2, case_square, case_experts, case_experts,
          case_one_square_stack, case_split_experts, case_loha, case_lokr, case_lokr, case_ia3, case_vera, case_oft,
          case_boft, case_hra, case_miss, case_adalora, case_saved, case_refused]


def run_case(program, c, folder):
    """Why the case fails, or nothing."""
    base, adapter, out = folder / "base", folder / "adapter", folder / "out.safetensors"
    for place in (base, adapter):
        place.mkdir(parents=True)
    write_file(base / "model.safetensors", c.base)
    if c.model is not None:
        (base / "config.json").write_text(json.dumps(c.model))
    write_file(adapter / "adapter_model.safetensors", c.adapter)
    if c.config is not None:
        (adapter / "adapter_config.json").write_text(json.dumps(c.config))
    done = subprocess.run([program, "merge-lora", "-b", base, "-a", adapter, "-o", out, *c.options],
                          capture_output=True, text=True)
    if c.refused is not None:
        if done.returncode == 0:
            return f"merged, and should be refused ({c.refused})"
        if c.refused not in done.stderr:
            return f"refused without saying {c.refused!r}: {done.stderr.strip()}"
        return None if not out.exists() else "refused, and left a file"
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr.strip()}"
    got = read_file(out)
    if set(got) != set(c.want):
        return f"tensors {sorted(got)} instead of {sorted(c.want)}"
    for name, want in c.want.items():
        dtype, is_ = got[name]
        if dtype != c.base[name][0] or is_.shape != want.shape:
            return f"{name} is {dtype} {is_.shape}"
        largest = max([abs(x) for x in want.v] + [1.0])
        for i, (x, y) in enumerate(zip(is_.v, want.v)):
            if not abs(x - y) <= ROUNDING[dtype] * max(abs(y), 0.1 * largest):
                return f"{name} element {i}: {x!r} instead of {y!r}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--count", type=int, default=704)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    program = str((options.bin / "tftf").resolve())
    passed, failed, refused, kinds = 0, 0, 0, {}
    work = Path(tempfile.mkdtemp())
    for n in range(options.count):
        if options.only is not None and n != options.only:
            continue
        maker = MAKERS[n % len(MAKERS)]
        c = Case(random.Random(options.seed * 1000003 + n))
        maker(c)
        folder = work / str(n)
        why = run_case(program, c, folder)
        kinds[maker.__name__] = kinds.get(maker.__name__, 0) + 1
        refused += c.refused is not None
        if why:
            failed += 1
            print(f"{maker.__name__} {n} (seed {options.seed}): {why}")
            if options.keep:
                shutil.copytree(folder, options.keep / str(n), dirs_exist_ok=True)
        else:
            passed += 1
        shutil.rmtree(folder)
    shutil.rmtree(work)
    if options.v:
        for kind, count in sorted(kinds.items()):
            print(f"{kind[5:]}: {count}")
        print(f"{refused} of them to be refused")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
