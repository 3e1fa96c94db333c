#!/usr/bin/env python3
"""Writes the bundled sample: a tiny Qwen3-shaped checkpoint in block FP8, two shards.

    make_sample.py FOLDER

The same bytes every time. Sizes are small but awkward on purpose: 200 rows and columns end in partial blocks of 128.
"""
import bisect
import json
import random
import struct
import sys
from pathlib import Path

LAYERS, HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCAB, BLOCK = 2, 128, 200, 4, 2, 32, 256, 128


def e4m3(code):
    """Value of a non-negative F8_E4M3 code below 0x7F."""
    exponent, mantissa = code >> 3, code & 7
    return mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)


VALUES = [e4m3(code) for code in range(0x7F)]


def quantise(x):
    """The nearest E4M3 code, ties to even."""
    a = min(abs(x), VALUES[-1])
    high = bisect.bisect_left(VALUES, a)
    low = max(high - 1, 0)
    below, above = a - VALUES[low], VALUES[high] - a
    code = low if below < above or (below == above and low % 2 == 0) else high
    return code | (0x80 if x < 0 else 0)


def bf16(values):
    """Rounded to nearest, ties to even; no value here is near the largest."""
    out = bytearray()
    for value in values:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        out += struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return bytes(out)


def linear(rng, name, rows, columns):
    """The weight and its scales, as name -> (dtype, shape, bytes)."""
    weight = [[rng.gauss(0, 0.02) for _ in range(columns)] for _ in range(rows)]
    scales, codes = [], [bytearray(columns) for _ in range(rows)]
    for top in range(0, rows, BLOCK):
        for left in range(0, columns, BLOCK):
            block = [(r, c) for r in range(top, min(top + BLOCK, rows)) for c in range(left, min(left + BLOCK, columns))]
            scale = max(abs(weight[r][c]) for r, c in block) / 448
            scale = struct.unpack("<f", struct.pack("<f", scale))[0]
            scales.append(scale)
            for r, c in block:
                codes[r][c] = quantise(weight[r][c] / scale)
    shape = [-(-rows // BLOCK), -(-columns // BLOCK)]
    return {f"{name}.weight": ("F8_E4M3", [rows, columns], b"".join(codes)),
            f"{name}.weight_scale_inv": ("F32", shape, struct.pack(f"<{len(scales)}f", *scales))}


def norm(rng, name, size):
    return {f"{name}.weight": ("BF16", [size], bf16([1 + rng.gauss(0, 0.05) for _ in range(size)]))}


def layer(rng, number):
    at = f"model.layers.{number}."
    tensors = norm(rng, at + "input_layernorm", HIDDEN)
    for part, rows, columns in (("self_attn.q_proj", HEADS * HEAD_DIM, HIDDEN), ("self_attn.k_proj", KV_HEADS * HEAD_DIM, HIDDEN),
                                ("self_attn.v_proj", KV_HEADS * HEAD_DIM, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM)):
        tensors |= linear(rng, at + part, rows, columns)
    tensors |= norm(rng, at + "self_attn.q_norm", HEAD_DIM) | norm(rng, at + "self_attn.k_norm", HEAD_DIM)
    tensors |= norm(rng, at + "post_attention_layernorm", HIDDEN)
    for part, rows, columns in (("gate_proj", INTERMEDIATE, HIDDEN), ("up_proj", INTERMEDIATE, HIDDEN),
                                ("down_proj", HIDDEN, INTERMEDIATE)):
        tensors |= linear(rng, at + "mlp." + part, rows, columns)
    return tensors


def save(path, tensors):
    """The reference writer's form: wider dtypes first, then by name."""
    rank = {"F32": 0, "BF16": 1, "F8_E4M3": 2}
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(tensors, key=lambda n: (rank[tensors[n][0]], n)):
        dtype, shape, content = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(12)
    embedding = bf16([rng.gauss(0, 0.02) for _ in range(VOCAB * HIDDEN)])
    first = {"model.embed_tokens.weight": ("BF16", [VOCAB, HIDDEN], embedding)} | layer(rng, 0)
    second = layer(rng, 1) | norm(rng, "model.norm", HIDDEN)
    weight_map, total = {}, 0
    for number, tensors in enumerate((first, second), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save(folder / file, tensors)
        weight_map |= {name: file for name in tensors}
        total += sum(len(content) for _, _, content in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    config = {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": HEAD_DIM, "hidden_act": "silu",
        "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "max_position_embeddings": 2048, "model_type": "qwen3",
        "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "num_key_value_heads": KV_HEADS,
        "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                "weight_block_size": [BLOCK, BLOCK]},
        "rms_norm_eps": 1e-06, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": VOCAB}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
