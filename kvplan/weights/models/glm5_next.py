"""GLM-5.3-Flash: Kimi delta attention and sparse latent attention in residual streams, routed experts, a vision tower.

vLLM: models/glm5next/common/{model,kda,attention,multimodal}.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import gated_mlp
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import FIRST, Frame, decoder
from kvplan.weights.mla import indexer, latent_attention
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import Packed
from kvplan.weights.parts import Linear
from kvplan.weights.vision.glm5_next import glm5_next_vision

ARCHITECTURES = ("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration")


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    b.only_unquantized()
    outer = ""
    if b.model.architecture == "Glm5NextForConditionalGeneration":
        outer = "language_model."
        glm5_next_vision(b)
    decoder(b, layer, Frame(embed_on=FIRST, outer=outer), tie=False)


def layer(b: Builder, prefix: str, index: int) -> None:
    """A decoder layer; a prediction module's, behind the last one, attends, routes and has no streams."""
    config, last = b.config, b.config.integer("num_hidden_layers")
    module = index >= last
    if not module and config.texts("layer_types")[index] == "linear_attention":
        _delta_attention(b, f"{prefix}.self_attn")
    else:
        _sparse_attention(b, f"{prefix}.self_attn")
    if module or config.texts("mlp_layer_types")[index] == "sparse":
        _experts(b, f"{prefix}.mlp")
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)
    if not module and config.truthy("mhc"):
        for part in ("attn", "ffn"):
            streams(b, f"{prefix}.hc_{part}")


def streams(b: Builder, prefix: str) -> None:
    """How hyper-connections mix the residual streams before and after a part."""
    count, size = b.config.integer("hc_mult"), b.config.integer("hidden_size")
    mixes = (2 + count) * count
    b.add(f"{prefix}_fn", mixes * count * size, FLOAT)
    b.add(f"{prefix}_base", mixes, FLOAT)
    b.add(f"{prefix}_scale", 3, FLOAT)


def _delta_attention(b: Builder, prefix: str) -> None:
    """`Glm5NextLinearAttention`: both low-rank gates are whole on every rank inside the fused projection."""
    config, hidden = b.config, b.config.integer("hidden_size")
    size, heads = config.integer("linear_head_dim"), config.integer("linear_num_heads")
    own, ranks = b.divide(heads, "linear_num_heads"), b.tensor_parallel_size
    parts = (own * size, own * size, own * size, own, size, size)
    b.linear(Linear(f"{prefix}.in_proj_qkvbfg_a", hidden, sum(parts) * ranks, hidden, parts, b.dtype, ranks))
    b.column(f"{prefix}.f_b_proj", size, size * heads)
    b.add(f"{prefix}.dt_bias", own * size, FLOAT)
    for name in ("q", "k", "v"):
        kernel = config.integer("linear_conv_kernel_dim")
        b.column(f"{prefix}.{name}_conv1d", kernel, size * heads, dtype=FLOAT, quantized=False)
    b.add(f"{prefix}.A_log", own, FLOAT)
    b.column(f"{prefix}.g_b_proj", size, size * heads)
    b.norm(f"{prefix}.o_norm", size)
    b.row(f"{prefix}.o_proj", size * heads, hidden)


def _sparse_attention(b: Builder, prefix: str) -> None:
    """`Glm5NextMLAAttention`, without positions, and its indexer of pooled keys."""
    config = b.config
    if config.integer("qk_rope_head_dim", minimum=0):
        b.refuse("with qk_rope_head_dim")
    latent_attention(b, prefix, rotary=False)
    pool, size = config.integer("index_kpool"), config.integer("index_head_dim")
    b.add(f"{prefix}.indexer.index_kpool_compress_ape", pool * size, FLOAT)
    b.add(f"{prefix}.indexer.index_kpool_compress_gate", size * config.integer("hidden_size"), "bfloat16")
    indexer(b, f"{prefix}.indexer")


def _experts(b: Builder, prefix: str) -> None:
    config = b.config
    count, size = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    correction = CORRECTION if config.get("topk_method") == "noaux_tc" else None
    router(b, f"{prefix}.gate", count, correction=correction)
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_experts", size * shared)
    b.experts(prefix, count, config.integer("hidden_size"), size)
