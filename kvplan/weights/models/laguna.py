"""Laguna: heads and positions by layer, a gate on attention, routed experts (vLLM: model_executor/models/laguna.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.families.common import num_layers
from kvplan.hf.config import Config
from kvplan.model import Model
from kvplan.weights.attention import HEAD, heads_of, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import TIED, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.models.qwen_moe import routed
from kvplan.weights.moe import CORRECTION, FLOAT, router
from kvplan.weights.names import QKV, Packed

ARCHITECTURES = ("LagunaForCausalLM",)
_SLIDING, _FULL = "sliding_attention", "full_attention"


def packed(model: Model) -> Packed:
    return QKV


def weights(b: Builder) -> None:
    decoder(b, _layer, Frame(embed_on=TIED))


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    count = num_layers(config)
    kind = config.texts("layer_types", [_FULL] * count, length=count)[index]
    _attention(b, f"{prefix}.self_attn", index, kind)
    if config.texts("mlp_layer_types", length=count)[index] == "sparse" and config.integer("num_experts", minimum=0):
        _experts(b, f"{prefix}.mlp")
    else:
        _mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def _attention(b: Builder, prefix: str, index: int, kind: str) -> None:
    config = b.config
    heads = heads_of(config)
    if config.get("num_attention_heads_per_layer") is not None:
        heads = heads._replace(query=config.integers("num_attention_heads_per_layer", minimum=1)[index])
    projections(b, prefix, heads, bias=config.truthy("attention_bias"))
    gating = config.get("gating")
    if gating:
        per_head = gating is True or gating == "per-head"
        b.column(f"{prefix}.g_proj", config.integer("hidden_size"), heads.query * (1 if per_head else heads.size))
    if kind == _SLIDING and config.truthy("swa_attention_sink_enabled"):
        b.add(f"{prefix}.sink", b.model.heads_per_rank(heads.query))
    b.rotary(f"{prefix}.rotary_emb", heads.size, positions(config), _rotary(config, kind))
    b.attention(f"{prefix}.attn")
    qk_norms(b, prefix, heads, HEAD)


def _rotary(config: Config, kind: str) -> Mapping[str, Any]:
    """Positions of a layer type: nested by it, or with a set of their own for sliding layers."""
    own = rope_parameters(config)
    if any(isinstance(value, Mapping) for value in own.values()):
        own = own.get(kind) or own.get(_FULL) or {}
    sliding = config.get("swa_rope_parameters")
    if kind == _SLIDING and isinstance(sliding, Mapping):
        own = sliding
    factor = config.get("partial_rotary_factor")
    return own if factor is None or "partial_rotary_factor" in own else {**own, "partial_rotary_factor": factor}


def _mlp(b: Builder, prefix: str, size: int) -> None:
    """Gate and up projections are not fused here."""
    hidden = b.config.integer("hidden_size")
    b.column(f"{prefix}.gate_proj", hidden, size)
    b.column(f"{prefix}.up_proj", hidden, size)
    b.row(f"{prefix}.down_proj", size, hidden)


def _experts(b: Builder, prefix: str) -> None:
    config = b.config
    count = config.integer("num_experts")
    router(b, f"{prefix}.gate", count)
    shared = config.integer("shared_expert_intermediate_size", minimum=0)
    if shared:
        _mlp(b, f"{prefix}.shared_expert", shared)
    b.add(f"{prefix}.experts.routed_experts.{CORRECTION}", count, FLOAT)
    routed(b, prefix)
