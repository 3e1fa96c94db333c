#!/usr/bin/env python3
"""Makes a checkpoint of the shape of DeepSeek-V3 out of sparse files.

    make_sparse_checkpoint.py FOLDER [--shards 163] [--layers 61] [--experts 256] [--hidden 7168] [--no-config]

Headers, index and config.json are real, the data are holes: some 12 MB on disk, 690 GB apparent with the
defaults (163 shards, 92,000 tensors). FOLDER must not exist. Prints the numbers of tensors, shards and bytes.
The same arguments give the same bytes.
"""
import argparse
import json
import os
import struct
import sys
from pathlib import Path

WIDTH = {"F8_E4M3": 1, "BF16": 2, "F32": 4}
BLOCK = 128


def ceil(a, b):
    return -(-a // b)


def tensors(a):
    """(name, dtype, shape) in the order of the layers."""
    h, heads = a.hidden, a.hidden // 56
    f, moe, shared = 18432 * h // 7168, 2048 * h // 7168, 1

    def fp8(name, rows, cols):
        yield name, "F8_E4M3", [rows, cols]
        yield name + "_scale_inv", "F32", [ceil(rows, BLOCK), ceil(cols, BLOCK)]

    def mlp(prefix, width):
        yield from fp8(prefix + "gate_proj.weight", width, h)
        yield from fp8(prefix + "up_proj.weight", width, h)
        yield from fp8(prefix + "down_proj.weight", h, width)

    yield "model.embed_tokens.weight", "BF16", [129280, h]
    for i in range(a.layers + 1):  # the last one predicts the next token
        p = f"model.layers.{i}."
        if i == a.layers:
            yield p + "embed_tokens.weight", "BF16", [129280, h]
            yield p + "enorm.weight", "BF16", [h]
            yield p + "hnorm.weight", "BF16", [h]
            yield p + "eh_proj.weight", "BF16", [h, 2 * h]
            yield p + "shared_head.norm.weight", "BF16", [h]
            yield p + "shared_head.head.weight", "BF16", [129280, h]
        yield from fp8(p + "self_attn.q_a_proj.weight", 1536, h)
        yield p + "self_attn.q_a_layernorm.weight", "BF16", [1536]
        yield from fp8(p + "self_attn.q_b_proj.weight", heads * 192, 1536)
        yield from fp8(p + "self_attn.kv_a_proj_with_mqa.weight", 576, h)
        yield p + "self_attn.kv_a_layernorm.weight", "BF16", [512]
        yield from fp8(p + "self_attn.kv_b_proj.weight", heads * 256, 512)
        yield from fp8(p + "self_attn.o_proj.weight", h, heads * 128)
        if i < 3:
            yield from mlp(p + "mlp.", f)
        else:
            yield p + "mlp.gate.weight", "BF16", [a.experts, h]
            yield p + "mlp.gate.e_score_correction_bias", "F32", [a.experts]
            for e in range(a.experts):
                yield from mlp(f"{p}mlp.experts.{e}.", moe)
            yield from mlp(p + "mlp.shared_experts.", moe * shared)
        yield p + "input_layernorm.weight", "BF16", [h]
        yield p + "post_attention_layernorm.weight", "BF16", [h]
    yield "model.norm.weight", "BF16", [h]
    yield "lm_head.weight", "BF16", [129280, h]


def size(dtype, shape):
    n = WIDTH[dtype]
    for d in shape:
        n *= d
    return n


def config(a):
    h, heads = a.hidden, a.hidden // 56
    return {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": h,
            "intermediate_size": 18432 * h // 7168, "moe_intermediate_size": 2048 * h // 7168,
            "num_hidden_layers": a.layers, "num_nextn_predict_layers": 1, "num_attention_heads": heads,
            "num_key_value_heads": heads, "n_routed_experts": a.experts, "n_shared_experts": 1,
            "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                    "weight_block_size": [BLOCK, BLOCK]}}


def write_shard(path, entries):
    """The reference writer's order: wider types first, then names by bytes."""
    entries = sorted(entries, key=lambda t: (-WIDTH[t[1]], t[0].encode()))
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape in entries:
        end = at + size(dtype, shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", type=Path)
    ap.add_argument("--shards", type=int, default=163)
    ap.add_argument("--layers", type=int, default=61)
    ap.add_argument("--experts", type=int, default=256)
    ap.add_argument("--hidden", type=int, default=7168, help="a multiple of 56")
    ap.add_argument("--no-config", action="store_true")
    a = ap.parse_args()
    every = list(tensors(a))
    total = sum(size(d, s) for _, d, s in every)
    if not 1 <= a.shards <= min(99999, len(every)):
        sys.exit(f"--shards must be 1 to {min(99999, len(every))}")
    a.folder.mkdir(parents=True)
    shards, limit = [[]], ceil(total, a.shards)
    filled, left = 0, len(every)
    for t in every:
        missing = a.shards - len(shards)
        if shards[-1] and missing and (filled >= limit * len(shards) or left <= missing):
            shards.append([])
        shards[-1].append(t)
        filled += size(t[1], t[2])
        left -= 1
    weight_map = {}
    for number, entries in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(a.folder / name, entries)
        weight_map.update((t[0], name) for t in entries)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (a.folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    if not a.no_config:
        (a.folder / "config.json").write_text(json.dumps(config(a), indent=2) + "\n")
    on_disk = sum(f.stat().st_blocks * 512 for f in os.scandir(a.folder))
    print(f"{len(every)} tensors, {len(shards)} shards, {total} bytes, {on_disk} on disk")


if __name__ == "__main__":
    main()
