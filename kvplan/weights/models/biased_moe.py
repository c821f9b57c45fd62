"""Decoders whose router adds a bias to its scores: Trinity (Afmoe), Hy 3, EXAONE's mixture, Step 3.5.

vLLM: model_executor/models/afmoe.py, hy_v3.py, exaone_moe.py, step3p5.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.families.common import head_dim
from kvplan.model import Model
from kvplan.weights.attention import (
    HEAD,
    Heads,
    gated_mlp,
    heads_of,
    positions,
    projections,
    qk_norms,
    rope_parameters,
)
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, FIRST, TIED, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "AfmoeForCausalLM",
    "HYV3ForCausalLM",
    "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM",
    "Step3p5ForCausalLM",
)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    name = b.model.architecture
    if name == "AfmoeForCausalLM":
        decoder(b, _afmoe_layer, Frame(embed_on=FIRST), tie=False)
    elif name == "HYV3ForCausalLM":
        decoder(b, _hy_v3_layer, Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS))
    elif name == "Step3p5ForCausalLM":
        decoder(b, _step_layer, Frame(embed_on=TIED), tie=False)
    else:
        decoder(b, _exaone_layer, Frame(embed_on=TIED))


def _afmoe_layer(b: Builder, prefix: str, index: int) -> None:
    """Attention's output has a gate; four norms. Only sliding layers rotate."""
    config, attention, hidden = b.config, f"{prefix}.self_attn", b.config.integer("hidden_size")
    heads = heads_of(config)
    projections(b, attention, heads)
    b.column(f"{attention}.gate_proj", hidden, heads.query * heads.size)
    qk_norms(b, attention, heads, HEAD)
    if config.texts("layer_types")[index] == "sliding_attention":
        b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{attention}.attn")
    for name in ("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"):
        b.norm(f"{prefix}.{name}", hidden)
    if index < config.integer("num_dense_layers", minimum=0):
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
        return
    size, shared = config.integer("moe_intermediate_size"), config.integer("num_shared_experts", 0, minimum=0)
    _mixture(b, f"{prefix}.mlp", "num_experts", size, "expert_bias", ("shared_experts", size * shared), gate=FLOAT)


def _hy_v3_layer(b: Builder, prefix: str, index: int) -> None:
    config, attention, heads = b.config, f"{prefix}.self_attn", heads_of(b.config)
    projections(b, attention, heads)
    if config.truthy("qk_norm"):
        qk_norms(b, attention, heads, HEAD)
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{attention}.attn")
    two_norms(b, prefix)
    if index < config.integer("first_k_dense_replace", minimum=0):
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
        return
    size, shared = config.integer("expert_hidden_dim"), config.integer("num_shared_experts", minimum=0)
    _mixture(b, f"{prefix}.mlp", "num_experts", size, "expert_bias", ("shared_mlp", size * shared), gate=FLOAT)


def _exaone_layer(b: Builder, prefix: str, index: int) -> None:
    config, attention, heads = b.config, f"{prefix}.self_attn", heads_of(b.config)
    projections(b, attention, heads, bias=config.truthy("attention_bias") or config.truthy("bias"))
    qk_norms(b, attention, heads, HEAD)
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{attention}.attn")
    two_norms(b, prefix)
    if config.texts("mlp_layer_types")[index] != "sparse":
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=config.truthy("mlp_bias"))
        return
    size, shared = config.integer("moe_intermediate_size"), config.integer("num_shared_experts", 0, minimum=0)
    _mixture(b, f"{prefix}.mlp", "num_experts", size, CORRECTION, ("shared_experts", size * shared))


def _step_layer(b: Builder, prefix: str, index: int) -> None:
    """Sliding layers may have query heads of their own, and each kind of layer positions of its own."""
    config, attention, hidden = b.config, f"{prefix}.self_attn", b.config.integer("hidden_size")
    kind = config.texts("layer_types")[index]
    own = config.optional_integer("num_sliding_attention_heads", minimum=0) if kind == "sliding_attention" else None
    query = own or config.integer("num_attention_heads")
    heads = Heads(query, config.integer("num_attention_groups"), head_dim(config))
    projections(b, attention, heads, bias=config.truthy("attention_bias"), out_bias=False)
    qk_norms(b, attention, heads, HEAD)
    if config.truthy("use_head_wise_attn_gate"):
        b.column(f"{attention}.g_proj", hidden, query)
    parameters = rope_parameters(config)
    nested = parameters.get(kind)
    if not isinstance(nested, Mapping) or config.get("partial_rotary_factors"):
        b.refuse("without rope_parameters of each kind of layer")
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), {"partial_rotary_factor": 1.0, **nested})
    b.attention(f"{attention}.attn")
    two_norms(b, prefix)
    if config.texts("mlp_layer_types")[index] != "sparse":
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
        return
    size, shared = config.integer("moe_intermediate_size"), config.integer("share_expert_dim")
    _mixture(b, f"{prefix}.moe", "moe_num_experts", size, "router_bias", ("share_expert", shared), gate=FLOAT)


def _mixture(
    b: Builder,
    prefix: str,
    count_key: str,
    size: int,
    bias: str,
    shared: tuple[str, int],
    *,
    gate: str | None = None,
) -> None:
    """Router, routed experts and the shared one: its name and width."""
    count = b.config.integer(count_key)
    router(b, f"{prefix}.gate", count, dtype=gate)
    b.add(f"{prefix}.{bias}", count, FLOAT)
    if shared[1]:
        shared_expert(b, f"{prefix}.{shared[0]}", shared[1])
    b.experts(prefix, count, b.config.integer("hidden_size"), size)
