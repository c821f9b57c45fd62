"""DeepSeek-V4: low-rank queries over one shared latent, compressors and indexers by layer, hyper-connections, experts.

vLLM: models/deepseek_v4/nvidia/model.py, attention.py, compressor.py, common/rope.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.families.deepseek_v4 import attention_backend, rates
from kvplan.model import Model
from kvplan.weights.attention import rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import DRAFTED, Frame, decoder
from kvplan.weights.models.glm5_next import streams
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import Packed

ARCHITECTURES = ("DeepseekV4ForCausalLM",)
_HEADS = 64
"""Sinks are padded to 64 or 128 heads, as the decode kernels take no other number."""


def packed(model: Model) -> Packed:
    return {
        "gate_up_proj": ("w1", "w3"),
        "fused_wqa_wkv": ("wq_a", "wkv"),
        "fused_wkv_wgate": ("wkv", "wgate"),
    }


def weights(b: Builder) -> None:
    if b.config.integer("vision_n_layers", 0, minimum=0):
        b.refuse("with vision_n_layers")
    compressed = rates(b.config)

    def layer_of(b: Builder, prefix: str, index: int) -> None:
        layer(b, prefix, index, compressed[index])

    decoder(b, layer_of, Frame(embed_on=DRAFTED), tie=False)
    head_streams(b, "model")


def head_streams(b: Builder, prefix: str) -> None:
    """How the residual streams become one again; the class makes it on every stage."""
    count, size = b.config.integer("hc_mult"), b.config.integer("hidden_size")
    b.add(f"{prefix}.hc_head_fn", count * count * size, FLOAT)
    b.add(f"{prefix}.hc_head_base", count, FLOAT)
    b.add(f"{prefix}.hc_head_scale", 1, FLOAT)


def layer(b: Builder, prefix: str, index: int, rate: int) -> None:
    """`DeepseekV4DecoderLayer`; ``rate`` tokens are compressed into one latent."""
    size = b.config.integer("hidden_size")
    for part in ("attn", "ffn"):
        streams(b, f"{prefix}.hc_{part}")
        b.norm(f"{prefix}.{part}_norm", size)
    _attention(b, f"{prefix}.attn", rate)
    _experts(b, f"{prefix}.ffn", index)


def _attention(b: Builder, prefix: str, rate: int) -> None:
    config = b.config
    hidden, heads, size = (config.integer(key) for key in ("hidden_size", "num_attention_heads", "head_dim"))
    low, groups, out = (config.integer(key) for key in ("q_lora_rank", "o_groups", "o_lora_rank"))
    b.add(f"{prefix}.attn_sink", _sinks(b, b.divide(heads, "num_attention_heads")), FLOAT)
    b.replicated(f"{prefix}.fused_wqa_wkv", hidden, (low, size))
    b.norm(f"{prefix}.q_norm", low)
    b.column(f"{prefix}.wq_b", low, heads * size)
    b.norm(f"{prefix}.kv_norm", size)
    b.column(f"{prefix}.wo_a", heads * size // groups, groups * out)
    b.row(f"{prefix}.wo_b", groups * out, hidden)
    length = config.integer("max_position_embeddings")
    b.rotary(f"{prefix}.rotary_emb", size, length, _rotary(b, rate, length), is_neox_style=False)
    if rate == 4:
        _indexer(b, f"{prefix}.indexer", rate)
    if rate > 1:
        _compressor(b, f"{prefix}.compressor", size, rate)


def _sinks(b: Builder, heads: int) -> int:
    """Heads of the sinks after padding (`get_padded_num_q_heads` of FlashMLA's class)."""
    if not attention_backend(b.model).startswith("FLASHMLA"):
        b.refuse("on FlashInfer's kernels")
    return -(-heads // _HEADS) * _HEADS


def _rotary(b: Builder, rate: int, length: int) -> Mapping[str, Any]:
    """`build_deepseek_v4_rope`: only compressed latents are scaled."""
    config, given = b.config, rope_parameters(b.config)
    if isinstance(given.get("main"), Mapping) and isinstance(given.get("compress"), Mapping):
        given = given["compress" if rate > 1 else "main"]
    theta = config.get("compress_rope_theta" if rate > 1 else "rope_theta", given.get("rope_theta"))
    fixed = {"rope_theta": theta, "is_deepseek_v4": True, "rope_dim": config.integer("qk_rope_head_dim")}
    if rate > 1 and given.get("rope_type", "default") != "default":
        plain = given.get("attention_factor") == 1.0
        return {**given, "rope_type": "deepseek_llama_scaling" if plain else "deepseek_yarn", **fixed}
    unscaled = {"rope_type": "deepseek_yarn", "factor": 1.0, "original_max_position_embeddings": length}
    return {**given, **unscaled, **fixed}


def _indexer(b: Builder, prefix: str, rate: int) -> None:
    config = b.config
    heads, size = config.integer("index_n_heads"), config.integer("index_head_dim")
    b.replicated(f"{prefix}.wq_b", config.integer("q_lora_rank"), heads * size)
    b.replicated(f"{prefix}.weights_proj", config.integer("hidden_size"), heads, quantized=False)
    _compressor(b, f"{prefix}.compressor", size, rate)


def _compressor(b: Builder, prefix: str, size: int, rate: int) -> None:
    """`DeepseekCompressor`: spans of 4 tokens overlap, which doubles its widths."""
    width = (2 if rate == 4 else 1) * size
    b.add(f"{prefix}.ape", rate * width, FLOAT)
    b.replicated(f"{prefix}.fused_wkv_wgate", b.config.integer("hidden_size"), (width, width), quantized=False)
    b.norm(f"{prefix}.norm", size)


def _experts(b: Builder, prefix: str, index: int) -> None:
    """`DeepseekV4MoE`: the first layers route by a table of token ids."""
    config = b.config
    count, size = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    hashed = index < config.texts("mlp_layer_types").count("hash_moe")
    biased = config.get("topk_method") == "noaux_tc" and not hashed
    router(b, f"{prefix}.gate", count, correction=CORRECTION if biased else None)
    if hashed:
        table = config.integer("vocab_size") * config.integer("num_experts_per_tok")
        b.add(f"{prefix}.gate.tid2eid", table, "int32")
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_experts", _whole_blocks(b, size * shared))
    b.experts(prefix, count, config.integer("hidden_size"), size)


def _whole_blocks(b: Builder, size: int) -> int:
    """The shared expert's width, padded so that each rank has whole blocks of a block quantisation."""
    block = getattr(b.scheme, "block", None)
    if block is None:
        return size
    ranks = b.tensor_parallel_size
    return int(-(-(size // block[0]) // ranks) * block[0] * ranks)
