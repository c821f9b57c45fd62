"""MiniMax-M3: block-sparse attention whose indexer's heads are fused with q, k and v; routed experts; a vision tower.

vLLM: models/minimax_m3/nvidia/model.py, common/vision_tower.py.
"""

from __future__ import annotations

from kvplan.families.minimax_m3 import sparse_layers, sparse_section
from kvplan.model import Model
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, positions, projections, qk_norms
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import WIDELY_SHARED, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import GATE_UP, QKV, Packed, Renames
from kvplan.weights.parts import Linear
from kvplan.weights.vision.minimax_m3 import minimax_m3_vision

ARCHITECTURES = ("MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration")


def packed(model: Model) -> Packed:
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames | None:
    return None


def weights(b: Builder) -> None:
    outer = ""
    if b.model.architecture == "MiniMaxM3SparseForConditionalGeneration":
        outer = "language_model."
        minimax_m3_vision(b)
    decoder(b, _layer, Frame(embed_on=WIDELY_SHARED, outer=outer), tie=False)


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    frequencies = config.get("moe_layer_freq")
    routed = not isinstance(frequencies, list) or bool(config.sequence("moe_layer_freq")[index])
    layer(b, prefix, sparse=index in sparse_layers(config), routed=routed)


def layer(b: Builder, prefix: str, *, sparse: bool, routed: bool) -> None:
    """`MiniMaxM3DecoderLayer`."""
    attention = f"{prefix}.self_attn"
    if sparse:
        _sparse_attention(b, attention)
    else:
        heads = heads_of(b.config)
        projections(b, attention, heads)
        qk_norms(b, attention, heads, HEAD)
        _rotary(b, attention)
        b.attention(f"{attention}.attn")
    if routed:
        _experts(b, f"{prefix}.block_sparse_moe")
    else:
        gated_mlp(b, f"{prefix}.mlp", b.config.integer("dense_intermediate_size"))
    two_norms(b, prefix)


def _rotary(b: Builder, prefix: str) -> None:
    config = b.config
    merged = config.get("rope_parameters")
    merged = merged if isinstance(merged, dict) else {}
    names = ("rope_theta", "partial_rotary_factor")
    parameters = {name: config.get(name, merged.get(name)) for name in names}
    b.rotary(f"{prefix}.rotary_emb", heads_of(config).size, positions(config), parameters)


def _sparse_attention(b: Builder, prefix: str) -> None:
    """`MiniMaxM3SparseAttention`: the indexer's queries are split as the KV heads, its one key is on every rank."""
    config, heads, section = b.config, heads_of(b.config), sparse_section(b.config)
    hidden, ranks, size = config.integer("hidden_size"), b.tensor_parallel_size, section.integer("sparse_index_dim")
    own, own_kv = b.model.heads_per_rank(heads.query), b.model.kv_heads_per_rank(heads.kv)
    parts = (own * heads.size, own_kv * heads.size, own_kv * heads.size, own_kv * size, size)
    b.linear(Linear(f"{prefix}.qkv_proj", hidden, sum(parts) * ranks, hidden, parts, b.dtype, ranks))
    b.row(f"{prefix}.o_proj", heads.query * heads.size, hidden)
    qk_norms(b, prefix, heads, HEAD)
    for name in ("index_q_norm", "index_k_norm"):
        b.norm(f"{prefix}.{name}", size)
    _rotary(b, prefix)
    for name in ("k", "v", "q", "prob"):
        b.buffer(f"{prefix}._{name}_scale", 1, FLOAT)


def _experts(b: Builder, prefix: str) -> None:
    config = b.config
    count, size = config.integer("num_local_experts"), config.integer("intermediate_size")
    router(b, f"{prefix}.gate", count, dtype=FLOAT)
    if config.truthy("use_routing_bias"):
        b.add(f"{prefix}.{CORRECTION}", count, FLOAT)
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_experts", size * shared)
    b.experts(prefix, count, config.integer("hidden_size"), size, activation="swigluoai")
