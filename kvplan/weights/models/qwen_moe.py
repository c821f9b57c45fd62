"""Qwen2 and Qwen3 with routed experts (vLLM: model_executor/models/qwen2_moe.py, qwen3_moe.py)."""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import gated_mlp, heads_of, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.models.llama import check_dual_chunk, qwen3_attention, two_norms
from kvplan.weights.moe import renormalizes, router, shared_expert, shared_expert_gate
from kvplan.weights.names import GATE_UP, NO_RENAMES, QKV, Renames

ARCHITECTURES = ("Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM")
FRAME = Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)


def packed(model: Model) -> dict[str, tuple[str, ...]]:
    """Gate and up projections are fused names too where a layer is dense or has a shared expert."""
    config = model.config
    dense = bool(config.get("mlp_only_layers")) or bool(config.get("shared_expert_intermediate_size"))
    return {**QKV, **GATE_UP} if dense else {**QKV}


def renames(model: Model) -> Renames | None:
    return NO_RENAMES


def weights(b: Builder) -> None:
    decoder(b, qwen3_moe_layer if b.model.architecture == "Qwen3MoeForCausalLM" else _qwen2_moe_layer, FRAME)


def is_sparse(b: Builder, index: int) -> bool:
    """Whether a layer routes to experts: mlp_only_layers, num_experts, decoder_sparse_step."""
    config = b.config
    if index in (config.get("mlp_only_layers") or ()):
        return False
    return (
        config.integer("num_experts", 0, minimum=0) > 0 and (index + 1) % config.integer("decoder_sparse_step", 1) == 0
    )


def _qwen2_moe_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    check_dual_chunk(b)
    heads = heads_of(config, divided=True)
    projections(b, f"{prefix}.self_attn", heads, bias=True, out_bias=False)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    if is_sparse(b, index):
        _experts(b, f"{prefix}.mlp", gate_quantized=False)
        shared_expert_gate(b, f"{prefix}.mlp")
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def qwen3_moe_layer(b: Builder, prefix: str, index: int, *, positions_factor: int = 4) -> None:
    """`Qwen3MoeDecoderLayer`."""
    qwen3_attention(b, f"{prefix}.self_attn", positions_factor=positions_factor)
    if is_sparse(b, index):
        _experts(b, f"{prefix}.mlp", gate_quantized=True)
        if b.config.integer("shared_expert_intermediate_size", 0, minimum=0):
            shared_expert_gate(b, f"{prefix}.mlp")
    else:
        gated_mlp(b, f"{prefix}.mlp", b.config.integer("intermediate_size"))
    two_norms(b, prefix)


def _experts(b: Builder, prefix: str, *, gate_quantized: bool) -> None:
    config = b.config
    router(b, f"{prefix}.gate", config.integer("num_experts"), quantized=gate_quantized)
    shared = config.integer("shared_expert_intermediate_size", 0, minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_expert", shared)
    routed(b, prefix)


def routed(b: Builder, prefix: str) -> None:
    """Experts under Qwen's names."""
    config = b.config
    b.experts(
        prefix,
        config.integer("num_experts"),
        config.integer("hidden_size"),
        config.integer("moe_intermediate_size"),
        renormalizes=renormalizes(config),
    )
