#!/usr/bin/env python3
"""Writes tests/golden/merge/cases.json: small bases, adapters of every kind and the merged weights.

    merge_cases.py [FILE]

The expected values come from the formulas of PEFT, worked out here element by element in plain Python: every product
and sum is rounded to F32 (F64 for F64 bases), in the order that docs/numerics.md promises, and once more to the
dtype of the base. Nothing of the program is used.
"""
import json
import math
import random
import struct
import sys
from pathlib import Path

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def encode(dtype, values):
    if dtype == "F64":
        return struct.pack(f"<{len(values)}d", *values)
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *[f32(v) for v in values])
    out = b""
    for v in values:
        bits = struct.unpack("<I", struct.pack("<f", v))[0]
        out += struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return out


def decode(dtype, data):
    if dtype == "F64":
        return list(struct.unpack(f"<{len(data) // 8}d", data))
    if dtype == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if dtype == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def count(shape):
    return math.prod(shape)


class Tensor:
    def __init__(self, name, dtype, shape, values):
        self.name, self.dtype, self.shape = name, dtype, list(shape)
        self.data = encode(dtype, values)
        assert len(values) == count(shape), name

    @property
    def values(self):
        return decode(self.dtype, self.data)

    def json(self):
        return {"name": self.name, "dtype": self.dtype, "shape": self.shape, "hex": self.data.hex()}


R = random.Random(20240501)


def noise(n, spread=1.0):
    return [R.uniform(-spread, spread) for _ in range(n)]


def tensor(name, shape, dtype="F32", spread=1.0):
    return Tensor(name, dtype, shape, noise(count(shape), spread))


def rounder(dtype):
    return (lambda x: x) if dtype == "F64" else f32


def matmul(a, b, n, k, m, rnd):
    """(n, k) times (k, m), sums in the order of k."""
    out = []
    for i in range(n):
        for j in range(m):
            s = 0.0
            for x in range(k):
                s = rnd(s + rnd(a[i * k + x] * b[x * m + j]))
            out.append(s)
    return out


def transpose(v, n, m):
    return [v[i * m + j] for j in range(m) for i in range(n)]


def add(w, delta, s, rnd):
    s = rnd(s)
    return [rnd(x + rnd(s * d)) for x, d in zip(w, delta)]


def dora(w, m, rows, cols, by_rows, rnd):
    out = list(w)
    for g in range(rows if by_rows else cols):
        at = [g * cols + j for j in range(cols)] if by_rows else [i * cols + g for i in range(rows)]
        norm = max(rnd(math.sqrt(math.fsum(w[i] * w[i] for i in at))), rnd(1e-8))
        f = rnd(m[g] / norm)
        for i in at:
            out[i] = rnd(w[i] * f)
    return out


CASES = []


def case(title, base, adapter, config, expected=None, error=None, options=None, model_config=None):
    entry = {"title": title, "base": [t.json() for t in base], "adapter": [t.json() for t in adapter],
             "config": config, "options": options or {}, "model_config": model_config}
    if error:
        entry["error"] = error
    else:
        named = {t.name: t for t in base}
        named.update({t.name: t for t in expected})
        entry["expected"] = [t.json() for t in named.values()]
    CASES.append(entry)


P = "base_model.model."


def lora_config(r, alpha, targets, **more):
    return {"peft_type": "LORA", "r": r, "lora_alpha": alpha, "target_modules": targets, **more}


def merged(t, values, shape=None):
    return Tensor(t.name, t.dtype, shape or t.shape, values)


def lora_linear():
    for dtype in SIZES:
        rnd = rounder(dtype)
        for out, inp, r in ((37, 53, 3), (1, 17, 1), (64, 1, 2), (130, 33, 5)):
            w, a, b = tensor("m.q.weight", (out, inp), dtype), tensor(P + "m.q.lora_A.weight", (r, inp)), \
                tensor(P + "m.q.lora_B.weight", (out, r))
            y = add(w.values, matmul(b.values, a.values, out, r, inp, rnd), 1.7 * (7 / r), rnd)
            case(f"linear {dtype} {out}x{inp} r={r}", [w, tensor("m.norm.weight", (5,), dtype)], [a, b],
                 lora_config(r, 7, ["q"]), [merged(w, y)], options={"scale": "1.7"})
    for dtype in ("BF16", "F64"):  # stored (in, out)
        rnd = rounder(dtype)
        inp, out, r = 21, 34, 4
        w, a, b = tensor("c.weight", (inp, out), dtype), tensor(P + "c.lora_A.weight", (r, inp), "BF16"), \
            tensor(P + "c.lora_B.weight", (out, r), "F16")
        left, right = transpose(a.values, r, inp), transpose(b.values, out, r)
        y = add(w.values, matmul(left, right, inp, r, out, rnd), 2 / math.sqrt(r), rnd)
        case(f"fan_in_fan_out {dtype}", [w], [a, b],
             lora_config(r, 2, ["c"], fan_in_fan_out=True, use_rslora=True), [merged(w, y)])
        case(f"fan_in_fan_out by shape {dtype}", [w], [a, b], lora_config(r, 2, ["c"], use_rslora=True), [merged(w, y)])
        m = tensor(P + "c.lora_magnitude_vector", (out,))
        case(f"dora of columns {dtype}", [w], [a, b, m],
             lora_config(r, 2, ["c"], fan_in_fan_out=True, use_rslora=True, use_dora=True),
             [merged(w, dora(y, m.values, inp, out, False, rnd))])
    w, a, b = tensor("q.weight", (9, 11), "F16"), tensor(P + "q.lora_A.weight", (2, 11)), \
        tensor(P + "q.lora_B.weight", (9, 2))
    m = tensor(P + "q.lora_magnitude_vector", (9,))
    y = dora(add(w.values, matmul(b.values, a.values, 9, 2, 11, f32), 1.5, f32), m.values, 9, 11, True, f32)
    case("dora of rows", [w], [a, b, m], lora_config(2, 3, ["q"], use_dora=True), [merged(w, y)])
    y = add(w.values, matmul(b.values, a.values, 9, 2, 11, f32), 1, f32)
    case("no configuration", [w], [a, b], None, [merged(w, y)])


def other_modules():
    w, a, b = tensor("emb.weight", (19, 6), "BF16"), tensor(P + "emb.lora_embedding_A", (2, 19)), \
        tensor(P + "emb.lora_embedding_B", (6, 2))
    delta = transpose(matmul(b.values, a.values, 6, 2, 19, f32), 6, 19)
    y = add(w.values, delta, 2, f32)
    case("embedding", [w], [a, b], lora_config(2, 4, ["emb"]), [merged(w, y)])
    m = tensor(P + "emb.lora_magnitude_vector", (6,))
    case("embedding with dora", [w], [a, b, m], lora_config(2, 4, ["emb"], use_dora=True),
         [merged(w, dora(y, m.values, 19, 6, False, f32))])
    rows = tensor(P + "emb.token_adapter.trainable_tokens_delta", (2, 6))
    z = list(w.values)
    for i, row in enumerate((17, 3)):
        z[row * 6:row * 6 + 6] = rows.values[i * 6:i * 6 + 6]
    head = Tensor("lm_head.weight", "F32", (19, 6), w.values)
    config = lora_config(2, 4, ["q"], trainable_token_indices={"emb": [17, 3]})
    q, qa, qb = tensor("q.weight", (4, 6)), tensor(P + "q.lora_A.weight", (2, 6)), tensor(P + "q.lora_B.weight", (4, 2))
    qy = merged(q, add(q.values, matmul(qb.values, qa.values, 4, 2, 6, f32), 2, f32))
    case("token rows", [w, q, head], [rows, qa, qb], config, [merged(w, z), qy])
    y_head = list(head.values)
    for i, row in enumerate((17, 3)):
        y_head[row * 6:row * 6 + 6] = rows.values[i * 6:i * 6 + 6]
    case("token rows of a tied head", [w, q, head], [rows, qa, qb], config,
         [merged(w, z), qy, merged(head, y_head)], model_config={"tie_word_embeddings": True})

    conv, ca, cb = tensor("k.weight", (6, 4, 3, 2), "BF16"), tensor(P + "k.lora_A.weight", (3, 4, 3, 2)), \
        tensor(P + "k.lora_B.weight", (6, 3, 1, 1))
    cy = add(conv.values, matmul(cb.values, ca.values, 6, 3, 24, f32), 1, f32)
    cm = tensor(P + "k.lora_magnitude_vector", (1, 6, 1, 1))
    case("convolution", [conv], [ca, cb], lora_config(3, 3, ["k"]), [merged(conv, cy)])
    case("convolution with dora", [conv], [ca, cb, cm], lora_config(3, 3, ["k"]),
         [merged(conv, dora(cy, cm.values, 6, 24, True, f32))])
    bad = tensor(P + "k.lora_A.weight", (3, 8, 3, 2))
    case("grouped convolution", [conv], [bad, cb], lora_config(3, 3, ["k"]), error="refused-unsupported")

    e, r, inp, out = 3, 2, 5, 7
    for turned in (False, True):
        w = tensor("x.experts.up", (e, inp, out) if turned else (e, out, inp), "BF16")
        a, b = tensor(P + "x.experts.lora_A.weight", (e * r, inp)), tensor(P + "x.experts.lora_B.weight", (out, r * e))
        y = []
        for x in range(e):
            left = [b.values[o * r * e + k * e + x] for o in range(out) for k in range(r)]
            right = a.values[x * r * inp:(x + 1) * r * inp]
            delta = matmul(left, right, out, r, inp, f32)
            if turned:
                delta = transpose(delta, out, inp)
            n = inp * out
            y += add(w.values[x * n:(x + 1) * n], delta, 0.5, f32)
        case(f"experts {'(E, in, out)' if turned else '(E, out, in)'}", [w], [a, b],
             {"peft_type": "LORA", "r": r, "lora_alpha": 1, "target_modules": None,
              "target_parameters": ["experts.up"]}, [merged(w, y)])

    w, a, b = tensor("attn.in_proj_weight", (12, 4)), tensor(P + "attn.lora_A.weight", (2, 4)), \
        tensor(P + "attn.lora_B.weight", (12, 2))
    o, oa, ob = tensor("attn.out_proj.weight", (4, 4)), tensor(P + "attn.base_layer.out_proj.lora_A.weight", (2, 4)), \
        tensor(P + "attn.base_layer.out_proj.lora_B.weight", (4, 2))
    case("MultiheadAttention", [w, o], [a, b, oa, ob], lora_config(2, 2, ["attn"]),
         [merged(w, add(w.values, matmul(b.values, a.values, 12, 2, 4, f32), 1, f32)),
          merged(o, add(o.values, matmul(ob.values, oa.values, 4, 2, 4, f32), 1, f32))])
    case("MultiheadAttention with a rank of its own", [w, o], [a, b, oa, ob],
         lora_config(8, 2, ["attn"], rank_pattern={"attn": 2}, alpha_pattern={"attn": 6}),
         [merged(w, add(w.values, matmul(b.values, a.values, 12, 2, 4, f32), 3, f32)),
          merged(o, add(o.values, matmul(ob.values, oa.values, 4, 2, 4, f32), 3, f32))])


def saved_tensors():
    q, a, b = tensor("q.weight", (4, 6)), tensor(P + "q.lora_A.weight", (2, 6)), tensor(P + "q.lora_B.weight", (4, 2))
    qy = merged(q, add(q.values, matmul(b.values, a.values, 4, 2, 6, f32), 2, f32))
    head, big = tensor("lm_head.weight", (5, 6), "BF16"), tensor(P + "lm_head.weight", (8, 6))
    case("saved module with more rows", [q, head], [a, b, big], lora_config(2, 4, ["q"], modules_to_save=["lm_head"]),
         [qy, Tensor("lm_head.weight", "BF16", (8, 6), big.values)])
    wide = tensor(P + "lm_head.weight", (8, 7))
    case("saved module with other columns", [q, head], [a, b, wide],
         lora_config(2, 4, ["q"], modules_to_save=["lm_head"]), error="refused-shape")
    score = tensor(P + "score.weight", (3, 6), "F16")
    case("new head", [q], [a, b, score], lora_config(2, 4, ["q"], task_type="SEQ_CLS"),
         [qy, Tensor("score.weight", "F16", (3, 6), score.values)])
    case("unknown tensor", [q], [a, b, score], lora_config(2, 4, ["q"]), error="refused-unmatched")
    emb, full = tensor("emb.weight", (7, 6), "BF16"), tensor(P + "emb.base_layer.weight", (9, 6))
    ea, eb = tensor(P + "emb.lora_embedding_A", (2, 9)), tensor(P + "emb.lora_embedding_B", (6, 2))
    y = add(full.values, transpose(matmul(eb.values, ea.values, 6, 2, 9, f32), 6, 9), 2, f32)
    case("saved embedding with a pair on top", [q, emb], [a, b, full, ea, eb], lora_config(2, 4, ["q", "emb"]),
         [qy, Tensor("emb.weight", "BF16", (9, 6), y)])
    bias, extra = tensor("q.bias", (4,), "BF16"), tensor(P + "q.lora_B.bias", (4,))
    case("lora_bias", [q, bias], [a, b, extra], lora_config(2, 3, ["q"], lora_bias=True),
         [merged(q, add(q.values, matmul(b.values, a.values, 4, 2, 6, f32), 1.5, f32)),
          merged(bias, add(bias.values, extra.values, 1.5, f32))])


def loha_lokr():
    def config(kind, r, alpha, **more):
        return {"peft_type": kind, "r": r, "alpha": alpha, "target_modules": ["q"], **more}
    w = tensor("q.weight", (7, 10), "BF16")
    t = {n: tensor(P + "q.hada_" + n, s) for n, s in
         {"w1_a": (7, 3), "w1_b": (3, 10), "w2_a": (7, 3), "w2_b": (3, 10)}.items()}
    one = matmul(t["w1_a"].values, t["w1_b"].values, 7, 3, 10, f32)
    two = matmul(t["w2_a"].values, t["w2_b"].values, 7, 3, 10, f32)
    case("loha", [w], list(t.values()), config("LOHA", 3, 2),
         [merged(w, add(w.values, [f32(x * y) for x, y in zip(one, two)], 2 / 3, f32))])

    def tucker(core, a, b, r, p, c, x):
        """sum over i of a[i, p] * (sum over j of core[i, j, x] * b[j, c])."""
        inner = [0.0] * (r * c * x)
        for i in range(r):
            for cc in range(c):
                for k in range(x):
                    s = 0.0
                    for j in range(r):
                        s = f32(s + f32(core[(i * r + j) * x + k] * b[j * c + cc]))
                    inner[(i * c + cc) * x + k] = s
        return matmul(transpose(a, r, p), inner, p, r, c * x, f32)
    w = tensor("q.weight", (4, 6, 3, 2))
    t = {n: tensor(P + "q.hada_" + n, s) for n, s in
         {"w1_a": (2, 4), "w1_b": (2, 6), "w2_a": (2, 4), "w2_b": (2, 6), "t1": (2, 2, 3, 2), "t2": (2, 2, 3, 2)}.items()}
    one = tucker(t["t1"].values, t["w1_a"].values, t["w1_b"].values, 2, 4, 6, 6)
    two = tucker(t["t2"].values, t["w2_a"].values, t["w2_b"].values, 2, 4, 6, 6)
    case("loha in Tucker form", [w], list(t.values()), config("LOHA", 2, 3),
         [merged(w, add(w.values, [f32(x * y) for x, y in zip(one, two)], 1.5, f32))])

    def kron(w1, w2, a, b, c, d, x):
        out = []
        for i in range(a * c):
            for j in range(b * d):
                for k in range(x):
                    out.append(f32(w1[i // c * b + j // d] * w2[(i % c * d + j % d) * x + k]))
        return out
    w = tensor("q.weight", (6, 8), "F16")
    w1, w2 = tensor(P + "q.lokr_w1", (2, 2)), tensor(P + "q.lokr_w2", (3, 4))
    case("lokr of whole factors", [w], [w1, w2], config("LOKR", 4, 2),
         [merged(w, add(w.values, kron(w1.values, w2.values, 2, 2, 3, 4, 1), 0.5, f32))])
    a1, b1 = tensor(P + "q.lokr_w1_a", (2, 3)), tensor(P + "q.lokr_w1_b", (3, 2))
    a2, b2 = tensor(P + "q.lokr_w2_a", (3, 3)), tensor(P + "q.lokr_w2_b", (3, 4))
    case("lokr of four factors", [w], [a1, b1, a2, b2], config("LOKR", 3, 2),
         [merged(w, add(w.values, kron(matmul(a1.values, b1.values, 2, 3, 2, f32),
                                       matmul(a2.values, b2.values, 3, 3, 4, f32), 2, 2, 3, 4, 1), 2 / 3, f32))])
    w = tensor("q.weight", (4, 6, 2, 2))
    core, a2, b2 = tensor(P + "q.lokr_t2", (2, 2, 2, 2)), tensor(P + "q.lokr_w2_a", (2, 2)), \
        tensor(P + "q.lokr_w2_b", (2, 3))
    two = tucker(core.values, a2.values, b2.values, 2, 2, 3, 4)
    case("lokr in Tucker form", [w], [w1, core, a2, b2], config("LOKR", 2, 3),
         [merged(w, add(w.values, kron(w1.values, two, 2, 2, 2, 3, 4), 1.5, f32))])
    whole = tensor(P + "q.lokr_w2", (2, 3, 2, 2))
    case("lokr of a convolution", [w], [w1, whole], config("LOKR", 2, 3),
         [merged(w, add(w.values, kron(w1.values, whole.values, 2, 2, 2, 3, 4), 1.5, f32))])
    case("lokr that does not fit", [w], [w1, w2], config("LOKR", 2, 3), error="refused-shape")


def ia3_vera():
    def config(**more):
        return {"peft_type": "IA3", "target_modules": ["k", "down"], "feedforward_modules": ["down"], **more}
    k, kb, d, db = tensor("k.weight", (5, 4), "BF16"), tensor("k.bias", (5,)), tensor("down.weight", (4, 6)), \
        tensor("down.bias", (4,))
    lk, ld = tensor(P + "k.ia3_l", (5, 1)), tensor(P + "down.ia3_l", (1, 6))
    case("ia3", [k, kb, d, db], [lk, ld], config(), [
        merged(k, [f32(x * lk.values[i // 4]) for i, x in enumerate(k.values)]),
        merged(kb, [f32(x * y) for x, y in zip(kb.values, lk.values)]),
        merged(d, [f32(x * ld.values[i % 6]) for i, x in enumerate(d.values)])])
    case("ia3 with a scale", [k, kb, d, db], [lk, ld], config(), error="usage", options={"scale": "0.5"})
    f = tensor("k.weight", (4, 5))  # (in, out)
    case("ia3 with fan_in_fan_out", [f], [lk], config(fan_in_fan_out=True),
         [merged(f, [f32(x * lk.values[i % 5]) for i, x in enumerate(f.values)])])

    q, v = tensor("q.weight", (5, 4), "BF16"), tensor("v.weight", (3, 6))
    va, vb = tensor("base_model.vera_A", (2, 6)), tensor("base_model.vera_B", (5, 2))
    parts, expected = [va, vb], []
    for w, out, inp in ((q, 5, 4), (v, 3, 6)):
        name = P + w.name[0]
        lb, ld = tensor(name + ".vera_lambda_b", (out,)), tensor(name + ".vera_lambda_d", (2,))
        parts += [lb, ld]
        left = [f32(lb.values[i] * vb.values[i * 2 + x]) for i in range(out) for x in range(2)]
        right = [f32(ld.values[x] * va.values[x * 6 + j]) for x in range(2) for j in range(inp)]
        expected.append(merged(w, add(w.values, matmul(left, right, out, 2, inp, f32), 1, f32)))
    vera = {"peft_type": "VERA", "r": 2, "target_modules": ["q", "v"], "save_projection": True}
    case("vera", [q, v], parts, vera, expected)
    case("vera without projections", [q, v], parts[2:], {**vera, "save_projection": False}, error="refused-unsupported")


def oft():
    def rotation(rows, n, terms):
        q = [[0.0] * n for _ in range(n)]
        at = 0
        for i in range(n):
            for j in range(i + 1, n):
                q[i][j], q[j][i] = rows[at], -rows[at]
                at += 1
        eye = [[float(i == j) for j in range(n)] for i in range(n)]
        mul = lambda a, b: [[math.fsum(a[i][k] * b[k][j] for k in range(n)) for j in range(n)] for i in range(n)]
        if terms:
            weights = {1: [1], 2: [1, 2], 3: [1, 2, 2, 1], 4: [1, 2, 2, 1], 5: [1, 2, 2, 2, 1]}[terms]
            power, out = eye, [[0.0] * n for _ in range(n)]
            for weight in weights:
                out = [[out[i][j] + weight * power[i][j] for j in range(n)] for i in range(n)]
                power = mul(power, q)
            return out
        # (I - Q)(I + Q)^-1 as I - 2Q + 2Q^2 - ...: converges for the small Q used here
        out, power, sign = [row[:] for row in eye], q, -2.0
        for _ in range(400):
            out = [[out[i][j] + sign * power[i][j] for j in range(n)] for i in range(n)]
            power, sign = mul(power, q), -sign
        return out

    def turn(w, rows, cols, blocks, n, shared, terms, embedding):
        out = list(w)
        for g in range(cols // n):
            d = blocks[0 if shared else g]
            m = [[f32(d[k][j] if embedding else d[j][k]) for j in range(n)] for k in range(n)]
            for i in range(rows):
                for j in range(n):
                    s = 0.0
                    for k in range(n):
                        s = f32(s + f32(w[i * cols + g * n + k] * m[k][j]))
                    out[i * cols + g * n + j] = s
        return out
    for terms in (0, 1, 2, 3, 4, 5):
        w, r = tensor("q.weight", (5, 8), "BF16"), tensor(P + "q.oft_R.weight", (2, 6), spread=0.2)
        blocks = [rotation(r.values[i * 6:i * 6 + 6], 4, terms) for i in range(2)]
        case(f"oft terms={terms}", [w], [r],
             {"peft_type": "OFT", "oft_block_size": 4, "target_modules": ["q"], "use_cayley_neumann": terms > 0,
              "num_cayley_neumann_terms": terms or 5},
             [merged(w, turn(w.values, 5, 8, blocks, 4, False, terms, False))])
    w, r = tensor("emb.weight", (9, 6)), tensor(P + "emb.oft_embedding_R.weight", (2, 3), spread=0.2)
    blocks = [rotation(r.values[i * 3:i * 3 + 3], 3, 5) for i in range(2)]
    case("oft of an embedding", [w], [r], {"peft_type": "OFT", "r": 0, "oft_block_size": 3, "target_modules": ["emb"]},
         [merged(w, turn(w.values, 9, 6, blocks, 3, False, 5, True))])
    w, r = tensor("k.weight", (3, 2, 2, 2), "F16"), tensor(P + "k.oft_R.weight", (1, 6), spread=0.2)
    blocks = [rotation(r.values, 4, 5)]
    case("oft of a convolution, one block for all", [w], [r],
         {"peft_type": "OFT", "oft_block_size": 4, "block_share": True, "target_modules": ["k"]},
         [merged(w, turn(w.values, 3, 8, blocks, 4, True, 5, False))])
    eps = 0.05
    w, r = tensor("q.weight", (4, 4)), tensor(P + "q.oft_R.weight", (1, 6))
    norm = math.sqrt(math.fsum(2 * x * x for x in r.values))
    blocks = [rotation([x * eps / norm for x in r.values], 4, 5)]
    case("oft with a limit", [w], [r],
         {"peft_type": "OFT", "oft_block_size": 4, "coft": True, "eps": eps, "target_modules": ["q"]},
         [merged(w, turn(w.values, 4, 4, blocks, 4, True, 5, False))])


def refusals():
    q, a, b = tensor("q.weight", (4, 6)), tensor(P + "q.lora_A.weight", (2, 6)), tensor(P + "q.lora_B.weight", (4, 2))
    ok = lora_config(2, 4, ["q"])
    case("rank of another configuration", [q], [a, b], lora_config(3, 4, ["q"]), error="refused-shape")
    case("no twin", [q], [a], ok, error="refused-missing")
    case("another adapter's name", [q], [Tensor(t.name.replace(".weight", ".mine.weight"), "F32", t.shape, t.values)
                                        for t in (a, b)], ok, error="refused-unmatched")
    case("nothing targeted", [q], [a, b], lora_config(2, 4, ["v"]), error="refused-unmatched")
    case("another shape", [q], [a, tensor(P + "q.lora_B.weight", (5, 2))], ok,
         error="refused-shape")
    case("one row broadcast", [q], [tensor(P + "q.lora_A.weight", (1, 1)), tensor(P + "q.lora_B.weight", (4, 1))],
         lora_config(1, 1, ["q"]), error="refused-shape")
    case("names without a prefix", [q], [Tensor(t.name.replace("q.", "transformer.q."), "F32", t.shape, t.values)
                                        for t in (a, b)], ok, error="refused-unmatched")
    case("boft", [q], [tensor(P + "q.boft_R", (1, 2, 2, 2))],
         {"peft_type": "BOFT", "target_modules": ["q"]}, error="refused-missing")
    case("pissa", [q], [a, b], {**ok, "init_lora_weights": "pissa_niter_4"}, error="refused-unsupported")
    case("two wrappers of one weight", [q], [a, b] + [
        Tensor(t.name.replace("q.lora", "q.base_layer.lora"), "F32", t.shape, t.values) for t in (a, b)], ok,
        error="refused-ambiguous")
    case("another family", [q], [tensor("q.lora_a", (6, 2)), tensor("q.lora_b", (2, 4))], None,
         error="refused-missing")
    case("alpha that is no number", [q], [a, b], {**ok, "lora_alpha": float("nan")}, error="refused-config")
    case("rank 0", [q], [tensor(P + "q.lora_A.weight", (0, 6)), tensor(P + "q.lora_B.weight", (4, 0))], None,
         error="refused-shape")
    case("a row of tokens that is not there", [tensor("emb.weight", (3, 6))],
         [tensor(P + "emb.token_adapter.trainable_tokens_delta", (1, 6))],
         lora_config(2, 4, ["q"], trainable_token_indices=[3]), error="refused-config")
    huge = Tensor(P + "q.lora_B.weight", "F32", (4, 2), [3e38] * 8)
    case("overflow", [q], [Tensor(a.name, "F32", (2, 6), [2.0] * 12), huge], ok, error="refused-values")


def main():
    lora_linear()
    other_modules()
    saved_tensors()
    loha_lokr()
    ia3_vera()
    oft()
    refusals()
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "golden/merge/cases.json"
    to.parent.mkdir(exist_ok=True)
    to.write_text("[\n" + ",\n".join(json.dumps(c) for c in CASES) + "\n]\n")


if __name__ == "__main__":
    main()
