"""MoonViT, the vision tower of Kimi-K2.5, and its projector (vLLM: model_executor/models/kimi_k25_vit.py)."""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.hf.config import Config
from kvplan.weights.builder import Builder
from kvplan.weights.vision import section

_DEFAULTS = {
    "init_pos_emb_height": 64,
    "init_pos_emb_time": 4,
    "init_pos_emb_width": 64,
    "merge_kernel_size": [2, 2],
    "mm_hidden_size": None,
    "patch_size": 14,
    "vt_hidden_size": 1152,
    "vt_intermediate_size": 4304,
    "vt_num_attention_heads": 16,
    "vt_num_hidden_layers": 27,
}
"""vLLM's `KimiK25VisionConfig`."""
_CHANNELS = 3


def kimi_vision(b: Builder) -> None:
    """The tower and the projector where the deployment has them."""
    if not b.has_tower("vision_chunk"):
        return
    config = section(b.model.root, "vision_config", _DEFAULTS)
    size, patch = _size(config, "hidden_size"), config.integer("patch_size")
    prefix = "vision_tower.patch_embed"
    b.add(f"{prefix}.proj.weight", size * _CHANNELS * patch * patch)
    b.add(f"{prefix}.proj.bias", size)
    height, width, time = (config.integer(f"init_pos_emb_{key}") for key in ("height", "width", "time"))
    b.add(f"{prefix}.pos_emb.weight", height * width * size)
    b.buffer(f"{prefix}.pos_emb.time_weight", time * size, "float32" if _quantized(b) else None)
    with b.tower(_size(config, "num_attention_heads")):
        for i in range(_size(config, "num_hidden_layers")):
            _block(b, f"vision_tower.encoder.blocks.{i}", config)
    b.norm("vision_tower.encoder.final_layernorm", size, bias=True)
    _projector(b, config, size)


def _quantized(b: Builder) -> bool:
    """Whether the tower heeds the checkpoint's scheme: not compressed-tensors' (`_maybe_ignore_quant_config`)."""
    return b.scheme.name not in ("none", "compressed-tensors")


def _size(config: Config, key: str) -> int:
    """A size under its own name, or under Kimi's with ``vt_`` before it."""
    return config.integer(key if key in config.data else f"vt_{key}", maximum=2**20)


def _block(b: Builder, prefix: str, config: Config) -> None:
    size, inner = _size(config, "hidden_size"), _size(config, "intermediate_size")
    heads = _size(config, "num_attention_heads")
    for name in ("norm0", "norm1"):
        b.norm(f"{prefix}.{name}", size, bias=True)
    b.column(f"{prefix}.mlp.fc0", size, inner, bias=True, quantized=_quantized(b))
    b.row(f"{prefix}.mlp.fc1", inner, size, bias=True, quantized=_quantized(b))
    b.qkv(f"{prefix}.wqkv", size, size // heads, heads, heads, bias=True, quantized=_quantized(b))
    b.row(f"{prefix}.wo", size, size, bias=True, quantized=_quantized(b))


def _projector(b: Builder, config: Config, size: int) -> None:
    kind = config.get("mm_projector_type")
    if kind not in (None, "patchmerger"):
        raise Refused(f"{config.where}: mm_projector_type {kind!r} is not known to kvplan; give --weights-bytes.")
    kernel = config.integers("merge_kernel_size", length=2)
    merged = size * kernel[0] * kernel[1]
    b.norm("mm_projector.pre_norm", size, bias=True)
    b.replicated("mm_projector.linear_1", merged, merged, bias=True, quantized=_quantized(b))
    b.replicated("mm_projector.linear_2", merged, b.config.integer("hidden_size"), bias=True, quantized=_quantized(b))
