"""SigLIP vision towers (vLLM: model_executor/models/siglip.py)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.builder import Builder

_DEFAULTS = {
    "hidden_size": 768,
    "image_size": 224,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_channels": 3,
    "num_hidden_layers": 12,
    "patch_size": 16,
}
"""Transformers' `SiglipVisionConfig`."""
_TILE = 64
"""Sizes that are no multiple of it are not quantised in the feed-forward layers."""


def siglip(b: Builder, prefix: str, config: Config, *, layers: int | None = None, head: bool = False) -> None:
    """The tower without a pooling head; ``layers`` where fewer are kept than the config has."""
    config = config.with_defaults(_DEFAULTS)
    size, patch = config.integer("hidden_size"), config.integer("patch_size")
    positions = (config.integer("image_size") // patch) ** 2
    b.add(f"{prefix}.embeddings.patch_embedding.weight", size * config.integer("num_channels") * patch * patch)
    b.add(f"{prefix}.embeddings.patch_embedding.bias", size)
    b.add(f"{prefix}.embeddings.position_embedding.weight", positions * size)
    b.buffer(f"{prefix}.embeddings.position_ids", positions, "int64")
    for i in range(config.integer("num_hidden_layers", maximum=1000) if layers is None else layers):
        _layer(b, f"{prefix}.encoder.layers.{i}", config)
    if layers is None or layers == config.integer("num_hidden_layers"):
        b.norm(f"{prefix}.post_layernorm", size, bias=True)


def _layer(b: Builder, prefix: str, config: Config) -> None:
    size, inner = config.integer("hidden_size"), config.integer("intermediate_size")
    heads = config.integer("num_attention_heads")
    b.qkv(f"{prefix}.self_attn.qkv_proj", size, size // heads, heads, heads, bias=True)
    b.row(f"{prefix}.self_attn.out_proj", size, size, bias=True)
    quantized = size % _TILE == 0 and inner % _TILE == 0
    b.column(f"{prefix}.mlp.fc1", size, inner, bias=True, quantized=quantized)
    b.row(f"{prefix}.mlp.fc2", inner, size, bias=True, quantized=quantized)
    for name in ("layer_norm1", "layer_norm2"):
        b.norm(f"{prefix}.{name}", size, bias=True)
