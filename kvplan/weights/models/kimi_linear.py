"""Kimi-Linear: Kimi delta attention with a latent attention layer every few, routed experts.

vLLM: models/kimi_k3/nvidia/model.py, model_executor/layers/mamba/gdn/kimi_gdn_linear_attn.py.
"""

from __future__ import annotations

from kvplan.families.kimi_linear import kda_layers, linear_section
from kvplan.model import Model
from kvplan.weights.attention import gated_mlp
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import FIRST, Frame, decoder
from kvplan.weights.mla import latent_attention
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import Packed
from kvplan.weights.parts import Linear

ARCHITECTURES = ("KimiLinearForCausalLM",)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    b.only_unquantized()
    recurrent = kda_layers(linear_section(b.config))

    def layer(b: Builder, prefix: str, index: int) -> None:
        if index in recurrent:
            _delta_attention(b, f"{prefix}.self_attn")
        else:
            latent_attention(b, f"{prefix}.self_attn", scales="", rotary=False)
            b.buffer(f"{prefix}.self_attn._one_scale", 1, FLOAT)
        _feed_forward(b, prefix, index)
        two_norms(b, prefix)

    decoder(b, layer, Frame(embed_on=FIRST), tie=False)


def _delta_attention(b: Builder, prefix: str) -> None:
    """`KimiGatedDeltaNetAttention`: the low-rank gates are whole on every rank inside the fused projection."""
    section, hidden = linear_section(b.config), b.config.integer("hidden_size")
    if section.truthy("use_full_rank_gate"):
        b.refuse("with linear_attn_config.use_full_rank_gate")
    size, heads = section.integer("head_dim"), section.integer("num_heads")
    own = b.divide(heads, "linear_attn_config.num_heads")
    total, ranks = size * heads, b.tensor_parallel_size
    parts = (own * size, own * size, own * size, own, size)
    b.linear(Linear(f"{prefix}.in_proj_qkvgfab", hidden, sum(parts) * ranks, hidden, parts, b.dtype, ranks))
    b.column(f"{prefix}.f_b_proj", size, total)
    b.add(f"{prefix}.dt_bias", own * size, FLOAT)
    b.add(f"{prefix}.A_log", own, FLOAT)
    kernel = section.integer("short_conv_kernel_size")
    b.column(f"{prefix}.conv1d", kernel, 3 * total, dtype=FLOAT, quantized=False)
    b.replicated(f"{prefix}.g_a_proj", hidden, size)
    b.column(f"{prefix}.g_b_proj", size, total)
    b.norm(f"{prefix}.o_norm", size)
    b.row(f"{prefix}.o_proj", total, hidden)


def _feed_forward(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    first = config.integer("first_k_dense_replace", minimum=0)
    count = config.optional_integer("num_experts", minimum=0)
    if not count or index < first or index % config.integer("moe_layer_freq"):
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
        return
    if config.get("routed_expert_hidden_size") or config.get("moe_latent_size"):
        b.refuse("with experts in a smaller space")
    prefix, size = f"{prefix}.block_sparse_moe", config.integer("moe_intermediate_size")
    router(b, f"{prefix}.gate", count, correction=CORRECTION)
    shared = config.optional_integer("num_shared_experts", minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_experts", size * shared)
    b.experts(prefix, count, config.integer("hidden_size"), _padded(b, size))


def _padded(b: Builder, size: int) -> int:
    """The experts' size, raised where a rank's part would be smaller than the kernels like (`KimiMoE`)."""
    least, ranks = b.config.integer("min_moe_intermediate_per_partition", 256), b.tensor_parallel_size
    parallel = b.model.engine.enable_expert_parallel
    return least * ranks if ranks > 1 and not parallel and size // ranks < least else size
