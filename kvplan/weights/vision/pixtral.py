"""Pixtral's and CLIP's vision towers (vLLM: model_executor/models/pixtral.py, `PixtralHFVisionModel`; clip.py)."""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.hf.config import Config
from kvplan.weights.builder import Builder

_PIXTRAL = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 24,
    "patch_size": 16,
}
"""Transformers' `PixtralVisionConfig`."""
_WITHOUT = {"patch_size": 14}
"""What Mistral 3's config says of a tower that its file does not describe."""
_CLIP = {
    "hidden_size": 768,
    "image_size": 224,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_channels": 3,
    "num_hidden_layers": 12,
    "patch_size": 32,
}
"""Transformers' `CLIPVisionConfig`."""


def layers_until(root: Config, count: int, default: int) -> int:
    """Layers of a tower up to the one whose states are read (`get_layer_index`). Refused for several of them."""
    layer = root.get("vision_feature_layer", default)
    if isinstance(layer, bool) or not isinstance(layer, int) or not -count - 1 <= layer <= count:
        raise Refused(
            f"{root.where}: vision_feature_layer {layer!r} is not known to kvplan's weights; give --weights-bytes."
        )
    return count + layer + 1 if layer < 0 else layer


def pixtral(b: Builder, prefix: str, root: Config, default_layer: int) -> int:
    """The tower; the width that it hands on."""
    config = (root.section("vision_config") or Config(_WITHOUT, root.where)).with_defaults(_PIXTRAL)
    size, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    inner, patch = config.integer("intermediate_size"), config.integer("patch_size")
    b.add(f"{prefix}.patch_conv.weight", size * config.integer("num_channels") * patch * patch)
    b.norm(f"{prefix}.ln_pre", size)
    for i in range(layers_until(root, config.integer("num_hidden_layers", maximum=1000), default_layer)):
        layer = f"{prefix}.transformer.layers.{i}"
        b.qkv(f"{layer}.attention.qkv_proj", size, size // heads, heads, heads)
        b.row(f"{layer}.attention.o_proj", size, size)
        b.column(f"{layer}.feed_forward.gate_up_proj", size, (inner, inner))
        b.row(f"{layer}.feed_forward.down_proj", inner, size)
        for name in ("attention_norm", "ffn_norm"):
            b.norm(f"{layer}.{name}", size)
    for name in ("inv_freq", "original_inv_freq"):
        b.buffer(f"{prefix}.patch_positional_embedding.{name}", size // heads // 2, "float32")
    return size


def clip(b: Builder, prefix: str, root: Config, default_layer: int) -> int:
    """The tower without its last norm; the width that it hands on."""
    config = (root.section("vision_config") or Config({}, root.where)).with_defaults(_CLIP)
    size, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    inner, patch = config.integer("intermediate_size"), config.integer("patch_size")
    positions = (config.integer("image_size") // patch) ** 2 + 1
    b.add(f"{prefix}.embeddings.class_embedding", size)
    b.add(f"{prefix}.embeddings.patch_embedding.weight", size * config.integer("num_channels") * patch * patch)
    b.add(f"{prefix}.embeddings.position_embedding.weight", positions * size)
    b.buffer(f"{prefix}.embeddings.position_ids", positions, "int64")
    b.norm(f"{prefix}.pre_layrnorm", size, bias=True)
    for i in range(layers_until(root, config.integer("num_hidden_layers", maximum=1000), default_layer)):
        layer = f"{prefix}.encoder.layers.{i}"
        b.qkv(f"{layer}.self_attn.qkv_proj", size, size // heads, heads, heads, bias=True)
        b.row(f"{layer}.self_attn.out_proj", size, size, bias=True)
        b.column(f"{layer}.mlp.fc1", size, inner, bias=True)
        b.row(f"{layer}.mlp.fc2", inner, size, bias=True)
        for name in ("layer_norm1", "layer_norm2"):
            b.norm(f"{layer}.{name}", size, bias=True)
    return size
