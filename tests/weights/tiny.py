"""A tiny Llama whose checkpoint is laid out as each quantiser publishes it, and the rules by which ranks share it.

Nothing here comes from kvplan: the tests hold its numbers against these files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

HIDDEN, INNER, HEADS, KV_HEADS, SIZE, VOCABULARY, LAYERS = 512, 1024, 8, 4, 64, 1000, 2
GROUP = 128
Tensor = tuple[str, tuple[int, ...]]
Layout = Callable[[int, int], dict[str, Tensor]]
"""From the outputs and inputs of a matrix to its tensors: dtype and shape by name."""

BITS = {"F32": 32, "I32": 32, "I64": 64, "BF16": 16, "F16": 16, "F8_E4M3": 8, "U8": 8, "I8": 8}
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")
OUTPUTS = {
    "q_proj": (HEADS * SIZE, HIDDEN),
    "k_proj": (KV_HEADS * SIZE, HIDDEN),
    "v_proj": (KV_HEADS * SIZE, HIDDEN),
    "o_proj": (HIDDEN, HEADS * SIZE),
    "gate_proj": (INNER, HIDDEN),
    "up_proj": (INNER, HIDDEN),
    "down_proj": (HIDDEN, INNER),
}


def config(quantization: dict[str, Any] | None, dtype: str = "bfloat16") -> dict[str, Any]:
    found = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": dtype,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "num_hidden_layers": LAYERS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
    }
    return found if quantization is None else {**found, "quantization_config": quantization}


def tensors(layout: Layout, plain: str = "BF16") -> dict[str, Tensor]:
    """Every tensor of the checkpoint."""
    found: dict[str, Tensor] = {
        "model.embed_tokens.weight": (plain, (VOCABULARY, HIDDEN)),
        "model.norm.weight": (plain, (HIDDEN,)),
        "lm_head.weight": (plain, (VOCABULARY, HIDDEN)),
    }
    for i in range(LAYERS):
        for name, (outputs, inputs) in OUTPUTS.items():
            part = "self_attn" if name in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
            for tensor, value in layout(outputs, inputs).items():
                found[f"model.layers.{i}.{part}.{name}.{tensor}"] = value
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"model.layers.{i}.{name}.weight"] = (plain, (HIDDEN,))
    return found


def size_of(dtype: str, shape: tuple[int, ...]) -> int:
    return prod(shape) * BITS[dtype] // 8


def write(folder: Path, settings: dict[str, Any], found: dict[str, Tensor], files: int = 1) -> None:
    """config.json and safetensors files with real headers before holes of the right size."""
    (folder / "config.json").write_text(json.dumps(settings))
    names = sorted(found)
    parts = [names[i::files] for i in range(files)]
    for i, part in enumerate(parts):
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        at = 0
        for name in part:
            dtype, shape = found[name]
            end = at + size_of(dtype, shape)
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
            at = end
        text = json.dumps(header).encode()
        name = "model.safetensors" if files == 1 else f"model-{i + 1:05}-of-{files:05}.safetensors"
        with open(folder / name, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + at)
    if files > 1:
        mapped = {n: f"model-{i + 1:05}-of-{files:05}.safetensors" for i, part in enumerate(parts) for n in part}
        total = sum(size_of(*found[name]) for name in names)
        index = {"metadata": {"total_size": total}, "weight_map": mapped}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def shard_bytes(found: dict[str, Tensor], ranks: int, outputs_axis: dict[str, int]) -> int:
    """Bytes of one rank: matrices split along outputs or inputs, KV heads split or repeated, the rest whole.

    ``outputs_axis``: the axis of each kind of tensor that runs along the outputs; its other axis, where it has two,
    runs along the inputs. A tensor whose axis along the split has one entry is whole on each rank.
    """
    kept = {name: value for name, value in found.items() if not name.endswith("g_idx")}  # only desc_act reads it
    return sum(_shard(name, dtype, shape, ranks, outputs_axis) for name, (dtype, shape) in kept.items())


def _shard(name: str, dtype: str, shape: tuple[int, ...], ranks: int, outputs_axis: dict[str, int]) -> int:
    if name in ("model.embed_tokens.weight", "lm_head.weight"):
        padded = -(-shape[0] // 64) * 64
        return size_of(dtype, (padded // ranks, shape[1]))
    matrix, _, kind = name.rpartition(".")
    layer = matrix.rpartition(".")[2]
    if layer not in OUTPUTS or kind not in outputs_axis:
        return size_of(dtype, shape)
    along = outputs_axis[kind]
    axis = along if layer in COLUMNS else 1 - along
    if axis >= len(shape) or shape[axis] == 1:
        return size_of(dtype, shape)
    parts = min(ranks, KV_HEADS) if layer in ("k_proj", "v_proj") else ranks
    assert shape[axis] % parts == 0, (name, shape, parts)
    return size_of(dtype, shape) // parts


def buffers(cache_parameters: int = 0) -> int:
    """What vLLM computes itself: four scales per attention layer, one table of positions.

    ``cache_parameters``: bytes per layer of the scheme's own parameters for a quantised cache.
    """
    return LAYERS * (4 * 4 + cache_parameters) + 4096 * SIZE * 2


CACHE_PARAMETERS = {
    "fp8 per tensor": 4 * 2,
    "fp8 in blocks": 4 * 2,
    "FP8 of ModelOpt": 4 * 2,
    "NVFP4 of ModelOpt": 4 * 2,
    "int8 of compressed-tensors": 3 * 4 + 3 * 2,
    "fp8 of compressed-tensors": 3 * 4 + 3 * 2,
}
"""Scales of q, k, v and probabilities in the model's dtype (`BaseKVCacheMethod`); compressed-tensors has q, k and v in
float32 with zero points in the model's dtype (`CompressedTensorsKVCacheMethod`)."""


def every() -> Iterator[tuple[str, dict[str, Any] | None, Layout, dict[str, int], str]]:
    """Each quantisation: its name, settings, layout, axes along the outputs, and dtype of what is not quantised."""
    yield "bf16", None, lambda o, i: {"weight": ("BF16", (o, i))}, {"weight": 0}, "BF16"
    yield "fp16", None, lambda o, i: {"weight": ("F16", (o, i))}, {"weight": 0}, "F16"
    yield (
        "fp8 per tensor",
        {"quant_method": "fp8", "activation_scheme": "static"},
        lambda o, i: {"weight": ("F8_E4M3", (o, i)), "weight_scale": ("F32", ()), "input_scale": ("F32", ())},
        {"weight": 0},
        "BF16",
    )
    yield (
        "fp8 in blocks",
        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [64, 64]},
        lambda o, i: {"weight": ("F8_E4M3", (o, i)), "weight_scale_inv": ("F32", (o // 64, i // 64))},
        {"weight": 0, "weight_scale_inv": 0},
        "BF16",
    )
    yield (
        "int8 of compressed-tensors",
        compressed("int-quantized", weight(8, "int", "channel"), {**weight(8, "int", "token"), "dynamic": True}),
        lambda o, i: {"weight": ("I8", (o, i)), "weight_scale": ("F32", (o, 1))},
        {"weight": 0, "weight_scale": 0},
        "BF16",
    )
    yield (
        "fp8 of compressed-tensors",
        compressed("float-quantized", weight(8, "float", "channel"), {**weight(8, "float", "token"), "dynamic": True}),
        lambda o, i: {"weight": ("F8_E4M3", (o, i)), "weight_scale": ("F32", (o, 1))},
        {"weight": 0, "weight_scale": 0},
        "BF16",
    )
    yield (
        "AWQ",
        {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"},
        lambda o, i: {
            "qweight": ("I32", (i, o // 8)),
            "qzeros": ("I32", (i // 64, o // 8)),
            "scales": ("F16", (i // 64, o)),
        },
        {"qweight": 1, "qzeros": 1, "scales": 1},
        "F16",
    )
    yield (
        "GPTQ",
        {"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": False, "sym": True},
        lambda o, i: {
            "qweight": ("I32", (i // 8, o)),
            "qzeros": ("I32", (i // 64, o // 8)),
            "scales": ("F16", (i // 64, o)),
            "g_idx": ("I32", (i,)),
        },
        {"qweight": 1, "qzeros": 1, "scales": 1},
        "F16",
    )
    yield (
        "NVFP4 of ModelOpt",
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]},
        lambda o, i: {
            "weight": ("U8", (o, i // 2)),
            "weight_scale": ("F8_E4M3", (o, i // 16)),
            "weight_scale_2": ("F32", ()),
            "input_scale": ("F32", ()),
        },
        {"weight": 0, "weight_scale": 0},
        "BF16",
    )
    yield (
        "FP8 of ModelOpt",
        {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]},
        lambda o, i: {"weight": ("F8_E4M3", (o, i)), "weight_scale": ("F32", ()), "input_scale": ("F32", ())},
        {"weight": 0},
        "BF16",
    )


def compressed(format: str, weights: dict[str, Any], inputs: dict[str, Any] | None) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs, "output_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }


def weight(bits: int, kind: str, strategy: str, group: int | None = None) -> dict[str, Any]:
    return {
        "num_bits": bits,
        "type": kind,
        "strategy": strategy,
        "group_size": group,
        "symmetric": True,
        "dynamic": False,
    }
