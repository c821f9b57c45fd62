"""Hybrids of Mamba layers and attention: Granite 4, Falcon-H1, Jamba, LFM2.

vLLM: model_executor/models/granitemoehybrid.py, falcon_h1.py, jamba.py, lfm2.py, lfm2_moe.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import (
    HEAD,
    gated_mlp,
    heads_of,
    positions,
    projections,
    qk_norms,
    rope_parameters,
)
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, FIRST, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, router
from kvplan.weights.names import GATE_UP, QKV, Packed, Renames
from kvplan.weights.states import mamba1, mamba2, short_convolution

ARCHITECTURES = (
    "GraniteMoeHybridForCausalLM",
    "FalconH1ForCausalLM",
    "JambaForCausalLM",
    "Lfm2ForCausalLM",
    "Lfm2MoeForCausalLM",
)
_LFM2 = ("Lfm2ForCausalLM", "Lfm2MoeForCausalLM")


def packed(model: Model) -> Packed:
    if model.architecture in _LFM2:
        return {**QKV, "w13": ("w1", "w3"), "in_proj": ("in_proj",)}
    if model.architecture == "GraniteMoeHybridForCausalLM":
        return {**QKV, "conv1d": ("conv1d",), "in_proj": ("in_proj",), "input_linear": ("input_linear",)}
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames | None:
    return Renames(substrings=((".conv.", ".short_conv."),)) if model.architecture in _LFM2 else None


def weights(b: Builder) -> None:
    architecture = b.model.architecture
    if architecture in _LFM2:
        decoder(b, _lfm2_layer, Frame(norm="embedding_norm", embed_on=ALWAYS, embed_quantized=False), tie=True)
        return
    if architecture == "GraniteMoeHybridForCausalLM":
        everywhere = Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS, embed_quantized=False)
        decoder(b, _granite_layer, everywhere)
        return
    b.only_unquantized()
    if architecture == "FalconH1ForCausalLM":
        decoder(b, _falcon_layer, Frame(norm="final_layernorm", embed_on=FIRST))
    else:
        frame = Frame(norm="final_layernorm", embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)
        decoder(b, _jamba_layer, frame, tie=False)


def _granite_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    if config.texts("layers_block_type")[index] in ("mamba", "linear_attention"):
        mamba2(
            b,
            f"{prefix}.mamba",
            inner=config.integer("mamba_expand") * config.integer("hidden_size"),
            state=config.integer("mamba_d_state"),
            kernel=config.integer("mamba_d_conv"),
            groups=config.integer("mamba_n_groups"),
            heads=config.integer("mamba_n_heads"),
            conv_bias=config.truthy("mamba_conv_bias"),
            bias=config.truthy("mamba_proj_bias"),
        )
    else:
        heads = heads_of(config, divided=True)
        projections(b, f"{prefix}.self_attn", heads, bias=config.truthy("attention_bias"))
        if config.get("position_embedding_type") == "rope":
            b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
        b.attention(f"{prefix}.self_attn.attn")
    experts, hidden = config.integer("num_local_experts", 0, minimum=0), config.integer("hidden_size")
    if experts:
        router(b, f"{prefix}.block_sparse_moe.gate", experts)
        b.experts(f"{prefix}.block_sparse_moe", experts, hidden, config.integer("intermediate_size"))
    shared = config.integer("shared_intermediate_size", 0, minimum=0)
    if shared:
        gated_mlp(b, f"{prefix}.shared_mlp", shared, names=("input_linear", "output_linear"))
    two_norms(b, prefix)


def _falcon_layer(b: Builder, prefix: str, index: int) -> None:
    """Attention and a state side by side."""
    config = b.config
    heads = heads_of(config)
    projections(b, f"{prefix}.self_attn", heads)
    factor = (config.optional_integer("attn_rotary_emb") or heads.size) / heads.size
    rotary = {**rope_parameters(config), "partial_rotary_factor": factor}
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rotary)
    b.attention(f"{prefix}.self_attn.attn")
    _falcon_state(b, f"{prefix}.mamba")
    gated_mlp(b, f"{prefix}.feed_forward", config.integer("intermediate_size"), bias=config.truthy("mlp_bias"))
    for name in ("input_layernorm", "pre_ff_layernorm"):
        b.norm(f"{prefix}.{name}", config.integer("hidden_size"))


def _falcon_state(b: Builder, prefix: str) -> None:
    """The state with a vector of multipliers for what its input is projected to."""
    config, ranks = b.config, b.tensor_parallel_size
    expanded = int(config.number("mamba_expand", 2.0) * config.integer("hidden_size"))
    inner = config.optional_integer("mamba_d_ssm") or expanded
    groups, state, heads = (config.integer(f"mamba_{key}") for key in ("n_groups", "d_state", "n_heads"))
    mamba2(
        b,
        f"{prefix}.mamba",
        inner=inner,
        state=state,
        kernel=config.integer("mamba_d_conv"),
        groups=groups,
        heads=heads,
        conv_bias=config.truthy("mamba_conv_bias"),
        bias=config.truthy("mamba_proj_bias"),
        norm=config.truthy("mamba_rms_norm"),
    )
    repeated = ranks if groups % ranks else groups
    b.add(f"{prefix}.mup_vector", (2 * inner + 2 * repeated * state + heads) // ranks)


def _jamba_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    hidden = config.integer("hidden_size")
    if config.texts("layers_block_type")[index] == "mamba":
        mamba1(
            b,
            f"{prefix}.mamba",
            inner=config.integer("mamba_expand") * hidden,
            state=config.integer("mamba_d_state"),
            kernel=config.integer("mamba_d_conv"),
            rank=config.integer("mamba_dt_rank"),
            conv_bias=config.truthy("mamba_conv_bias"),
            bias=config.truthy("mamba_proj_bias"),
            norms=True,
        )
    else:
        projections(b, prefix, heads_of(config, divided=True))
        b.attention(f"{prefix}.attn")
    experts = _jamba_experts(b, index)
    if experts > 1:
        router(b, f"{prefix}.feed_forward.router", experts)
        b.experts(f"{prefix}.feed_forward", experts, hidden, config.integer("intermediate_size"))
    else:
        gated_mlp(b, f"{prefix}.feed_forward", config.integer("intermediate_size"))
    for name in ("input_layernorm", "pre_ff_layernorm"):
        b.norm(f"{prefix}.{name}", hidden)


def _jamba_experts(b: Builder, index: int) -> int:
    """Experts of a layer: num_experts on every expert_layer_period-th, from expert_layer_offset on."""
    config = b.config
    period, offset = config.integer("expert_layer_period"), config.integer("expert_layer_offset", minimum=0)
    return config.integer("num_experts") if index % period == offset else 1


def _lfm2_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    hidden = config.integer("hidden_size")
    if config.texts("layer_types")[index] == "full_attention":
        heads = heads_of(config, divided=True)
        projections(b, f"{prefix}.self_attn", heads, out="out_proj")
        qk_norms(b, f"{prefix}.self_attn", heads, HEAD, names=("q_layernorm", "k_layernorm"))
        b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
        b.attention(f"{prefix}.self_attn.attn", quantized=False)
    else:
        channels = config.integer("conv_dim") if "conv_dim" in config else hidden
        kernel = config.integer("conv_L_cache")
        short_convolution(b, f"{prefix}.short_conv", channels=channels, kernel=kernel, bias=config.truthy("conv_bias"))
    _lfm2_feed_forward(b, f"{prefix}.feed_forward", index)
    for name in ("operator_norm", "ffn_norm"):
        b.norm(f"{prefix}.{name}", hidden)


def _lfm2_feed_forward(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    hidden, names = config.integer("hidden_size"), ("w13", "w2")
    if b.model.architecture == "Lfm2ForCausalLM":
        inner = config.integer("block_dim") if "block_dim" in config else hidden
        gated_mlp(b, prefix, _lfm2_width(b), hidden=inner, names=names)
    elif index < config.integer("num_dense_layers", minimum=0):
        gated_mlp(b, prefix, config.integer("intermediate_size"), names=names)
    else:
        count = config.integer("num_experts")
        correction = CORRECTION if config.truthy("use_expert_bias") else None
        router(b, f"{prefix}.gate", count, correction=correction, quantized=True)
        b.experts(prefix, count, hidden, config.integer("moe_intermediate_size"))


def _lfm2_width(b: Builder) -> int:
    """The feed-forward layer's width: adjusted as block_auto_adjust_ff_dim says."""
    config = b.config
    width = config.integer("intermediate_size")
    if not config.truthy("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    factor = config.get("block_ffn_dim_multiplier")
    if factor is not None:
        width = int(config.number("block_ffn_dim_multiplier", minimum=0) * width)
    multiple = config.integer("block_multiple_of")
    return multiple * -(-width // multiple)
