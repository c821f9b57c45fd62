"""Decoders with grouped queries and routed experts: Mixtral, Phi-3.5-MoE, GLM-4.5 to 4.7, ERNIE 4.5, MiniMax-M2.

vLLM: model_executor/models/mixtral.py, phimoe.py, glm4_moe.py, ernie45_moe.py, minimax_m2.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, FIRST, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, renormalizes, router, shared_expert
from kvplan.weights.names import GATE_UP, NO_RENAMES, QKV, Renames

ARCHITECTURES = (
    "MixtralForCausalLM",
    "PhiMoEForCausalLM",
    "Glm4MoeForCausalLM",
    "Ernie4_5_MoeForCausalLM",
    "MiniMaxM2ForCausalLM",
)
_EVERYWHERE = Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)
_ENDS = Frame(embed_on=FIRST)


def packed(model: Model) -> dict[str, tuple[str, ...]]:
    fused = model.architecture in ("Glm4MoeForCausalLM", "Ernie4_5_MoeForCausalLM")
    return {**QKV, **GATE_UP} if fused else {**QKV}


def renames(model: Model) -> Renames | None:
    if model.architecture in ("Glm4MoeForCausalLM", "Ernie4_5_MoeForCausalLM"):
        return None
    if model.architecture != "MixtralForCausalLM":
        return NO_RENAMES
    return Renames(substrings=((".gate_proj.", ".w1."), (".up_proj.", ".w3."), (".down_proj.", ".w2.")))


def weights(b: Builder) -> None:
    architecture = b.model.architecture
    if architecture == "MixtralForCausalLM":
        decoder(b, _mixtral_layer, _EVERYWHERE)
    elif architecture == "PhiMoEForCausalLM":
        frame = _EVERYWHERE._replace(norm_bias=True, head_bias=True, head_quantized=False)
        decoder(b, _phimoe_layer, frame, tie=False)
    elif architecture == "Glm4MoeForCausalLM":
        decoder(b, glm4_moe_layer, _ENDS, tie=False)
    elif architecture == "Ernie4_5_MoeForCausalLM":
        decoder(b, _ernie_layer, _ENDS)
    else:
        decoder(b, _minimax_layer, _ENDS, tie=False)


def _mixtral_layer(b: Builder, prefix: str, index: int) -> None:
    config, heads = b.config, heads_of(b.config)
    projections(b, f"{prefix}.self_attn", heads)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    _local_experts(b, f"{prefix}.block_sparse_moe", renormalizes=True)
    two_norms(b, prefix)


def _local_experts(b: Builder, prefix: str, *, renormalizes: bool) -> None:
    """A router and experts of the size of a dense layer, as many as num_local_experts."""
    config = b.config
    count = config.integer("num_local_experts")
    router(b, f"{prefix}.gate", count)
    hidden, size = config.integer("hidden_size"), config.integer("intermediate_size")
    b.experts(prefix, count, hidden, size, renormalizes=renormalizes)


def _phimoe_layer(b: Builder, prefix: str, index: int) -> None:
    """Biases on every projection of attention; norms with biases."""
    config, heads = b.config, heads_of(b.config)
    projections(b, f"{prefix}.self_attn", heads, bias=True)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    _local_experts(b, f"{prefix}.block_sparse_moe", renormalizes=False)
    for name in ("input_layernorm", "post_attention_layernorm"):
        b.norm(f"{prefix}.{name}", config.integer("hidden_size"), bias=True)


def glm4_moe_layer(b: Builder, prefix: str, index: int) -> None:
    """`Glm4MoeDecoderLayer`: the first first_k_dense_replace layers are dense."""
    config, heads = b.config, heads_of(b.config)
    projections(b, f"{prefix}.self_attn", heads, bias=config.truthy("attention_bias"), out_bias=False)
    if config.truthy("use_qk_norm"):
        qk_norms(b, f"{prefix}.self_attn", heads, HEAD)
    rotary = {**rope_parameters(config)}
    rotary.setdefault("partial_rotary_factor", 0.5)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config, 131072), rotary)
    b.attention(f"{prefix}.self_attn.attn")
    if config.get("n_routed_experts") is not None and index >= config.integer("first_k_dense_replace", minimum=0):
        shared_experts(b, f"{prefix}.mlp", gate_dtype=FLOAT)
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def shared_experts(b: Builder, prefix: str, *, gate_dtype: str | None = None) -> None:
    """Experts under DeepSeek's names: n_routed_experts, and n_shared_experts as one wide layer."""
    config = b.config
    hidden, size = config.integer("hidden_size"), config.integer("moe_intermediate_size")
    count = config.integer("n_routed_experts")
    router(b, f"{prefix}.gate", count, dtype=gate_dtype, correction=CORRECTION)
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared:
        gated_mlp(b, f"{prefix}.shared_experts", size * shared)  # split however the tokens are split
    b.experts(prefix, count, hidden, size, renormalizes=renormalizes(config))


def _ernie_layer(b: Builder, prefix: str, index: int) -> None:
    config, heads = b.config, heads_of(b.config)
    bias = config.truthy("use_bias")
    projections(b, f"{prefix}.self_attn", heads, bias=bias, out_bias=False)
    length, parameters = positions(config, 131072), rope_parameters(config)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, length, parameters, is_neox_style=False)
    b.attention(f"{prefix}.self_attn.attn")
    if _ernie_is_sparse(b, index):
        _ernie_experts(b, f"{prefix}.mlp")
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=bias)
    two_norms(b, prefix)


def _ernie_is_sparse(b: Builder, index: int) -> bool:
    config = b.config
    experts = config.integer("moe_num_experts", 0, minimum=0)
    if not config.truthy("use_moe", experts > 0):
        return False
    last = config.integer("num_hidden_layers") - 1
    end = config.integer("moe_layer_end_index", last, minimum=-1)
    start = config.integer("moe_layer_start_index", 0, minimum=0)
    return (index + 1) % config.integer("moe_layer_interval", 1) == 0 and start <= index <= end


def _ernie_experts(b: Builder, prefix: str) -> None:
    config = b.config
    count, size = config.integer("moe_num_experts"), config.integer("moe_intermediate_size")
    router(b, f"{prefix}.gate", count, dtype=FLOAT, correction=CORRECTION)
    shared = config.integer("moe_num_shared_experts", 0, minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_experts", size * shared)
    b.experts(prefix, count, config.integer("hidden_size"), size, renormalizes=False)


def _minimax_layer(b: Builder, prefix: str, index: int) -> None:
    """Norms over all query heads and over all key heads, each rank with its part."""
    config, heads = b.config, heads_of(b.config)
    attention = f"{prefix}.self_attn"
    projections(b, attention, heads, bias=config.truthy("attention_bias"), out_bias=False)
    b.norm(f"{attention}.q_norm", b.model.heads_per_rank(heads.query) * heads.size)
    b.norm(f"{attention}.k_norm", b.model.kv_heads_per_rank(heads.kv) * heads.size)
    parameters = {**rope_parameters(config)}
    parameters.setdefault("partial_rotary_factor", config.integer("rotary_dim") / heads.size)
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), parameters)
    b.attention(f"{attention}.attn")
    _minimax_experts(b, f"{prefix}.block_sparse_moe")
    two_norms(b, prefix)


def _minimax_experts(b: Builder, prefix: str) -> None:
    config = b.config
    count = config.integer("num_local_experts")
    router(b, f"{prefix}.gate", count, dtype=FLOAT)
    if config.truthy("use_routing_bias"):
        b.add(f"{prefix}.{CORRECTION}", count, FLOAT)
    b.experts(prefix, count, config.integer("hidden_size"), config.integer("intermediate_size"))
