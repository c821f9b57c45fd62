"""Qwen's vision transformers (vLLM: model_executor/models/qwen3_vl.py and qwen2_5_vl.py)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.attention import gated_mlp
from kvplan.weights.builder import Builder
from kvplan.weights.vision import section

_POSITIONS = 8192
_DEFAULTS_3 = {
    "depth": 27,
    "hidden_size": 1152,
    "in_channels": 3,
    "intermediate_size": 4304,
    "num_heads": 16,
    "num_position_embeddings": 2304,
    "out_hidden_size": 3584,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
"""Transformers' `Qwen3VLVisionConfig`; Qwen3.5's has the same but for deepstack_visual_indexes."""
_DEFAULTS_2_5 = {
    "depth": 32,
    "hidden_size": 3584,
    "in_channels": 3,
    "intermediate_size": 3420,
    "num_heads": 16,
    "out_hidden_size": 3584,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
"""Transformers' `Qwen2_5_VLVisionConfig`."""


def qwen3_vision(b: Builder, prefix: str, deepstack: list[int]) -> None:
    """`Qwen3_VisionTransformer`, with a merger for each of deepstack_visual_indexes (``deepstack`` by default)."""
    config = section(b.model.root, "vision_config", _DEFAULTS_3)
    deepstack = config.integers("deepstack_visual_indexes", deepstack)
    size, heads = config.integer("hidden_size"), config.integer("num_heads")
    _patches(b, prefix, config, bias=True)
    b.add(f"{prefix}.pos_embed.weight", config.integer("num_position_embeddings") * size)
    _rotary(b, prefix, size // heads)
    with b.tower():
        _merger3(b, f"{prefix}.merger", config, norm=size)
        merged = size * config.integer("spatial_merge_size") ** 2
        for i in range(len(deepstack)):
            _merger3(b, f"{prefix}.deepstack_merger_list.{i}", config, norm=merged)
        for i in range(config.integer("depth", maximum=1000)):
            block = f"{prefix}.blocks.{i}"
            _attention(b, f"{block}.attn", size, heads)
            b.column(f"{block}.mlp.linear_fc1", size, config.integer("intermediate_size"), bias=True)
            b.row(f"{block}.mlp.linear_fc2", config.integer("intermediate_size"), size, bias=True)
            for name in ("norm1", "norm2"):
                b.norm(f"{block}.{name}", size, bias=True)


def qwen2_5_vision(b: Builder, prefix: str) -> None:
    """`Qwen2_5_VisionTransformer`."""
    config = section(b.model.root, "vision_config", _DEFAULTS_2_5)
    size, heads = config.integer("hidden_size"), config.integer("num_heads")
    merged = size * config.integer("spatial_merge_size") ** 2
    _patches(b, prefix, config, bias=False)
    _rotary(b, prefix, size // heads)
    with b.tower():
        for i in range(config.integer("depth", maximum=1000)):
            block = f"{prefix}.blocks.{i}"
            _attention(b, f"{block}.attn", size, heads)
            gated_mlp(b, f"{block}.mlp", config.integer("intermediate_size"), hidden=size, bias=True)
            for name in ("norm1", "norm2"):
                b.norm(f"{block}.{name}", size)
        b.norm(f"{prefix}.merger.ln_q", size)
        b.column(f"{prefix}.merger.mlp.0", merged, merged, bias=True)
        b.row(f"{prefix}.merger.mlp.2", merged, config.integer("out_hidden_size"), bias=True)


def _patches(b: Builder, prefix: str, config: Config, *, bias: bool) -> None:
    size, patch = config.integer("hidden_size"), config.integer("patch_size")
    kernel = config.integer("in_channels") * config.integer("temporal_patch_size") * patch * patch
    b.add(f"{prefix}.patch_embed.proj.weight", size * kernel)
    if bias:
        b.add(f"{prefix}.patch_embed.proj.bias", size)


def _rotary(b: Builder, prefix: str, head_size: int) -> None:
    b.rotary(f"{prefix}.rotary_pos_emb", head_size, _POSITIONS, {"partial_rotary_factor": 0.5})


def _attention(b: Builder, prefix: str, size: int, heads: int) -> None:
    b.qkv(f"{prefix}.qkv", size, size // heads, heads, heads, bias=True)
    b.row(f"{prefix}.proj", size, size, bias=True)


def _merger3(b: Builder, prefix: str, config: Config, *, norm: int) -> None:
    merged = config.integer("hidden_size") * config.integer("spatial_merge_size") ** 2
    b.norm(f"{prefix}.norm", norm, bias=True)
    b.column(f"{prefix}.linear_fc1", merged, merged, bias=True)
    b.row(f"{prefix}.linear_fc2", merged, config.integer("out_hidden_size"), bias=True)
