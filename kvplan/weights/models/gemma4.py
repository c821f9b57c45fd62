"""Gemma 4, text and vision: heads by kind of layer, embeddings per layer, experts beside the feed-forward layer.

vLLM: model_executor/models/gemma4.py, gemma4_mm.py. Every stage holds the embeddings and the norm.
"""

from __future__ import annotations

from kvplan.families.gemma4 import own_fields, shared_from
from kvplan.model import Model
from kvplan.weights.attention import HEAD, Heads, gated_mlp, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.models.gemma import four_norms
from kvplan.weights.moe import router
from kvplan.weights.names import GATE_UP, QKV, Packed, Renames
from kvplan.weights.vision.gemma4 import gemma4_vision

ARCHITECTURES = ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration")
_RENAMES = Renames(
    prefixes=(
        ("model.vision_tower", "vision_tower"),
        ("model.embed_vision", "embed_vision"),
        ("model.audio_tower.", "audio_tower."),
        ("model.embed_audio.", "embed_audio."),
        ("model.language_model.", "language_model.model."),
        ("lm_head.", "language_model.lm_head."),
        ("model", "language_model.model"),
    )
)


def packed(model: Model) -> Packed:
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames:
    if model.architecture == "Gemma4ForConditionalGeneration":
        return _RENAMES
    return Renames(prefixes=(("model.language_model.", "model."),))


def weights(b: Builder) -> None:
    """Refused with an audio tower, which kvplan does not know."""
    outer = ""
    if b.model.architecture == "Gemma4ForConditionalGeneration":
        outer = "language_model."
        if b.model.root.get("audio_config") is not None and b.has_tower("audio"):
            b.refuse("with audio_config")
        gemma4_vision(b)
    decoder(b, _layer, Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS, outer=outer))
    b.buffer(f"{outer}model.normalizer", 1)
    if _width_per_layer(b):
        _per_layer_embeddings(b, f"{outer}model")


def _width_per_layer(b: Builder) -> int:
    """Elements that each layer receives per token besides the hidden state; 0 where there are none."""
    return b.config.optional_integer("hidden_size_per_layer_input", minimum=0) or 0


def _per_layer_embeddings(b: Builder, prefix: str) -> None:
    config, size = b.config, _width_per_layer(b)
    total = size * config.integer("num_hidden_layers")
    b.embedding(f"{prefix}.embed_tokens_per_layer", config.integer("vocab_size_per_layer_input"), total)
    b.column(f"{prefix}.per_layer_model_projection", config.integer("hidden_size"), total)
    b.norm(f"{prefix}.per_layer_projection_norm", size)
    for name in ("embed_scale_per_layer", "per_layer_input_scale", "per_layer_projection_scale"):
        b.buffer(f"{prefix}.{name}", 1)


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    kinds = config.texts("layer_types")
    shared = index >= shared_from(config, kinds)
    _attention(b, f"{prefix}.self_attn", index, kinds[index], shared=shared)
    wide = 2 if shared and config.truthy("use_double_wide_mlp") else 1
    gated_mlp(b, f"{prefix}.mlp", wide * config.integer("intermediate_size"))
    four_norms(b, prefix)
    if config.get("num_experts") is not None:
        _experts(b, prefix)
    b.add(f"{prefix}.layer_scalar", 1)
    size, hidden = _width_per_layer(b), config.integer("hidden_size")
    if size:
        b.replicated(f"{prefix}.per_layer_input_gate", hidden, size)
        b.replicated(f"{prefix}.per_layer_projection", size, hidden)
        b.norm(f"{prefix}.post_per_layer_input_norm", hidden)


def _attention(b: Builder, prefix: str, index: int, kind: str, *, shared: bool) -> None:
    """`Gemma4Attention`; a layer that reads another's cache has queries only."""
    config = b.config
    own = own_fields(config).get(index, config)
    kv_heads = own.integer("num_key_value_heads", config.integer("num_key_value_heads"))
    size = own.integer("head_dim", config.integer("head_dim"))
    heads = Heads(config.integer("num_attention_heads"), kv_heads, size)
    bias = config.truthy("attention_bias")
    if shared:
        hidden = config.integer("hidden_size")
        b.column(f"{prefix}.q_proj", hidden, heads.query * size, bias=bias)
        b.row(f"{prefix}.o_proj", heads.query * size, hidden, bias=bias)
        b.norm(f"{prefix}.q_norm", size)
    else:
        projections(b, prefix, heads, bias=bias)
        qk_norms(b, prefix, heads, HEAD)
    b.rotary(f"{prefix}.rotary_emb", size, positions(config), rope_parameters(config, kind))
    b.attention(f"{prefix}.attn")


def _experts(b: Builder, prefix: str) -> None:
    """Experts beside the feed-forward layer, with norms of their own."""
    config = b.config
    hidden, count = config.integer("hidden_size"), config.integer("num_experts")
    b.add(f"{prefix}.router.scale", hidden)
    b.add(f"{prefix}.router.per_expert_scale", count)
    b.buffer(f"{prefix}.router.root_size", 1)
    router(b, f"{prefix}.router.proj", count)
    size = config.optional_integer("moe_intermediate_size") or config.integer("expert_intermediate_size")
    b.experts(prefix, count, hidden, size, activation="gelu_tanh")
    for name in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
        b.norm(f"{prefix}.{name}", hidden)
