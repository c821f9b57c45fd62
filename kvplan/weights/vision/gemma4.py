"""Gemma 4's vision tower: Transformers' own, whole on every rank (vLLM: model_executor/models/gemma4_mm.py)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.builder import Builder
from kvplan.weights.vision import section

_TOWER = "vision_tower"
_ANY_SIZE = ("compressed-tensors",)
"""Schemes that the tower heeds whatever its sizes; others want multiples of 64 (`_get_tower_quant_config`)."""


def gemma4_vision(b: Builder) -> None:
    if not b.has_tower("image", "video"):
        return
    config = section(b.model.root, "vision_config", {})
    if config.truthy("use_clipped_linears"):
        b.refuse("with vision_config.use_clipped_linears")
    size, patch = config.integer("hidden_size"), config.integer("patch_size")
    quantized = _heeds(b, config)
    b.replicated(f"{_TOWER}.patch_embedder.input_proj", 3 * patch * patch, size, quantized=quantized)
    b.add(f"{_TOWER}.patch_embedder.position_embedding_table", 2 * config.integer("position_embedding_size") * size)
    for i in range(config.integer("num_hidden_layers", maximum=1024)):
        _block(b, f"{_TOWER}.encoder.layers.{i}", config, quantized)
    if config.truthy("standardize"):
        b.add(f"{_TOWER}.std_bias", size)
        b.add(f"{_TOWER}.std_scale", size)
    for name in ("inv_freq", "original_inv_freq"):
        b.buffer(f"{_TOWER}.encoder.rotary_emb.{name}", config.integer("head_dim") // 4, "float32")
    b.replicated("embed_vision.embedding_projection", size, b.config.integer("hidden_size"), quantized=quantized)


def _heeds(b: Builder, config: Config) -> bool:
    """Whether the tower is under the checkpoint's scheme."""
    if b.scheme.name in _ANY_SIZE:
        return True
    return config.integer("hidden_size") % 64 == 0 and config.integer("intermediate_size") % 64 == 0


def _block(b: Builder, prefix: str, config: Config, quantized: bool) -> None:
    size, inner, head = (config.integer(key) for key in ("hidden_size", "intermediate_size", "head_dim"))
    queries = config.integer("num_attention_heads") * head
    keys = config.integer("num_key_value_heads") * head
    for name, width in (("q", queries), ("k", keys), ("v", keys)):
        b.replicated(f"{prefix}.self_attn.{name}_proj.linear", size, width, quantized=quantized)
    b.replicated(f"{prefix}.self_attn.o_proj.linear", queries, size, quantized=quantized)
    for name in ("q_norm", "k_norm"):
        b.norm(f"{prefix}.self_attn.{name}", head)
    for name in ("gate_proj", "up_proj"):
        b.replicated(f"{prefix}.mlp.{name}.linear", size, inner, quantized=quantized)
    b.replicated(f"{prefix}.mlp.down_proj.linear", inner, size, quantized=quantized)
    for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
        b.norm(f"{prefix}.{name}_layernorm", size)
