"""Hy4: latent attention with sinks and gates, sparse by layer, hyper-connections around each part, routed experts.

vLLM: models/hy_v4/nvidia/{model,attention,moe,hc}.py.
"""

from __future__ import annotations

from kvplan.families.hy_v4 import _owners, _sparse
from kvplan.model import Model
from kvplan.weights.attention import gated_mlp, positions, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import Frame, decoder
from kvplan.weights.mla import indexer, latent_attention
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import FLOAT, renormalizes, router, shared_expert
from kvplan.weights.names import GATE_UP, Packed

ARCHITECTURES = ("HYV4ForCausalLM",)


def packed(model: Model) -> Packed:
    return GATE_UP


def weights(b: Builder) -> None:
    b.only_unquantized()
    decoder(b, layer, Frame())
    if b.last and b.config.truthy("enable_ihc"):
        streams, size = b.config.integer("hc_mult"), b.config.integer("hidden_size")
        b.add("model.hc_head.hc_head_base", streams, FLOAT)
        b.add("model.hc_head.hc_head_scale", 1, FLOAT)
        b.add("model.hc_head.hc_head_fn.weight", streams * streams * size, FLOAT)


def layer(b: Builder, prefix: str, index: int) -> None:
    """A decoder layer; a prediction module's, behind the last one, attends fully, routes and has no streams."""
    config, last = b.config, b.config.integer("num_hidden_layers")
    attention(b, f"{prefix}.self_attn", index)
    kinds = config.texts("mlp_layer_types", allowed=("dense", "sparse"))
    if index >= last or kinds[index] == "sparse":
        _experts(b, f"{prefix}.mlp")
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)
    if index < last and config.truthy("enable_ihc"):
        for part in ("attn", "mlp"):
            _streams(b, f"{prefix}.hc_{part}_layer.hc_pre")


def attention(b: Builder, prefix: str, index: int) -> None:
    """`HYV4MLAAttention`."""
    config = b.config
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    latent_attention(b, prefix, scales=".mla_attn", rotary=False)
    size, length = config.integer("qk_rope_head_dim"), positions(config)
    b.rotary(f"{prefix}.rotary_emb", size, length, rope_parameters(config), is_neox_style=False)
    if _sparse(config, [index])[0] and (index >= config.integer("num_hidden_layers") or index in _leaders(b)):
        indexer(b, f"{prefix}.indexer")
    if config.truthy("gated_mla"):
        width = 1 if config.get("gating_type") == "headwise" else config.integer("v_head_dim")
        b.column(f"{prefix}.linear_gate", hidden, heads * width)
    if config.truthy("learnable_sink"):
        b.add(f"{prefix}.learnable_sink_param", b.divide(heads, "num_attention_heads"), FLOAT)


def _leaders(b: Builder) -> frozenset[int]:
    """Sparse layers that choose tokens themselves."""
    return _owners(b.config, b.config.integer("num_hidden_layers"))


def _streams(b: Builder, prefix: str) -> None:
    """`HYV4HCPreLayer`: how the residual streams enter a part and leave it."""
    streams, size = b.config.integer("hc_mult"), b.config.integer("hidden_size")
    b.add(f"{prefix}.hc_scale", 2, FLOAT)
    b.add(f"{prefix}.hc_base", 2 * streams, FLOAT)
    b.add(f"{prefix}.hc_fn.weight", 2 * streams * streams * size, FLOAT)


def _experts(b: Builder, prefix: str) -> None:
    config = b.config
    count, size = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    router(b, f"{prefix}.gate", count, dtype=FLOAT)
    b.add(f"{prefix}.expert_bias", count, FLOAT)
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_experts", size * shared)
    b.experts(prefix, count, config.integer("hidden_size"), size, renormalizes=renormalizes(config, "route_norm"))
