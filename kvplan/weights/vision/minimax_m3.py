"""MiniMax-M3's vision tower and its two projectors (vLLM: models/minimax_m3/common/vision_tower.py)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.builder import Builder
from kvplan.weights.vision import section

_TOWER = "vision_tower.vision_model"


def minimax_m3_vision(b: Builder) -> None:
    if not b.has_tower("image", "video"):
        return
    config = section(b.model.root, "vision_config", {})
    size, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    compression = config.section("img_token_compression_config")
    if compression is None:
        raise config.error("img_token_compression_config", "is missing, and vLLM cannot build the tower without it")
    frames, patch = compression.integer("temporal_patch_size", 2), config.integer("patch_size")
    channels = config.integer("num_channels", 3)
    b.add(f"{_TOWER}.embeddings.patch_embedding.weight", size * channels * frames * patch * patch)
    b.norm(f"{_TOWER}.pre_layrnorm", size, bias=True)
    axis = 2 * (2 * (size // heads // 2) // 3 // 2)
    for name in ("t", "h", "w"):
        b.buffer(f"{_TOWER}.inv_freq_{name}", axis // 2, "float32")
    with b.tower():
        for i in range(config.integer("num_hidden_layers", maximum=1024)):
            _block(b, f"{_TOWER}.encoder.layers.{i}", config)
        _projectors(b, config, size, compression.integer("spatial_merge_size", 2))


def _block(b: Builder, prefix: str, config: Config) -> None:
    size, inner = config.integer("hidden_size"), config.integer("intermediate_size")
    heads = config.integer("num_attention_heads")
    for name in ("layer_norm1", "layer_norm2"):
        b.norm(f"{prefix}.{name}", size, bias=True)
    b.qkv(f"{prefix}.self_attn.qkv_proj", size, size // heads, heads, heads, bias=True)
    b.row(f"{prefix}.self_attn.out_proj", size, size, bias=True)
    b.column(f"{prefix}.fc1", size, inner, bias=True)
    b.row(f"{prefix}.fc2", inner, size, bias=True)


def _projectors(b: Builder, config: Config, size: int, merge: int) -> None:
    """From the tower's width to the text's, and from merged patches to one token."""
    text = b.config.integer("hidden_size")
    middle = b.model.root.optional_integer("projector_hidden_size") or text
    bias = config.truthy("multimodal_projector_bias", True)
    b.column("vision_tower.multi_modal_projector.linear_1", size, middle, bias=bias)
    b.row("vision_tower.multi_modal_projector.linear_2", middle, text, bias=bias)
    bias = config.truthy("patch_merge_bias", True)
    b.column("vision_tower.patch_merge_mlp.linear_1", text * merge * merge, middle, bias=bias)
    b.row("vision_tower.patch_merge_mlp.linear_2", middle, text, bias=bias)
