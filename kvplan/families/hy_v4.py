"""Hy4: multi-head latent attention with sinks, sparse or dense by layer; some sparse layers own an indexer.

vLLM: models/hy_v4/nvidia/attention.py (HYV4MLAAttention).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.errors import Refused
from kvplan.families.common import num_layers
from kvplan.families.sparse_mla import indexer, indexer_bytes, leads
from kvplan.hf import Config
from kvplan.layers import Layer, MLALayer, Why
from kvplan.model import Model

ARCHITECTURES = ("HYV4ForCausalLM",)

_SPARSE = frozenset(("indexed_attention", "deepseek_sparse_attention", "sparse_attention", "sparse"))
_UNPACKED = ("auto", "bfloat16", "float16")
_WHY = ("layer_types, indexer_types, kv_lora_rank", "models/hy_v4/nvidia/attention.py, HYV4MLAAttention")


def _sparse(config: Config, indices: Sequence[int]) -> list[bool]:
    """Whether each decoder layer attends sparsely; a layer past the end of layer_types is like the last."""
    if config.get("layer_types") is None:
        return [False] * len(indices)
    kinds = config.texts("layer_types") or ["full_attention"]
    return [kinds[min(i, len(kinds) - 1)] in _SPARSE for i in indices]


def _owners(config: Config, count: int) -> frozenset[int]:
    """Indices of the sparse layers that own an indexer (`compute_skip_topk_layers`); the others reuse one."""
    if config.get("indexer_types") is None:
        return frozenset(i for i in range(count) if leads(config, i))
    types = config.texts("indexer_types", length=count, allowed=("full", "shared"))
    return frozenset(i for i, kind in enumerate(types) if kind == "full")


def _check_one_format(model: Model, sparse: Sequence[bool]) -> None:
    """Refused where a sparse layer's packed format would reach dense layers, whose kernels do not read it."""
    packs = model.cache_dtype not in _UNPACKED or model.engine.gpu.capability[0] == 12
    if packs and len(set(sparse)) > 1:
        raise Refused(
            f"{model.config.where}: layer_types mixes sparse and dense layers, and with --kv-cache-dtype "
            f"{model.cache_dtype} on {model.engine.gpu.name} they would store different formats, which kvplan does not "
            "judge; use --kv-cache-dtype bfloat16."
        )


def _gated(config: Config) -> None:
    if config.truthy("gated_mla") and config.get("gating_type") not in ("headwise", "elementwise"):
        raise config.error("gating_type", f"must be headwise or elementwise, got {config.get('gating_type')!r}")


def hy_v4_layers(model: Model, indices: range, why: Why = _WHY) -> Iterator[Layer]:
    """Decoder layers of these indices. Those from num_hidden_layers on are MTP modules, which own an indexer."""
    config = model.config
    count = num_layers(config)
    sparse = _sparse(config, indices)
    _check_one_format(model, sparse)
    _gated(config)
    template = MLALayer(
        name="",
        num_heads=model.heads_per_rank(config.integer("num_attention_heads")),
        head_size=config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim"),
        why=why,
        topk_buffer_width=config.integer("index_topk"),
        sink_backend="HY_V4_FLASHMLA_SPARSE" if config.truthy("learnable_sink") else None,
    )
    if not any(sparse):
        yield from (template._replace(name=f"model.layers.{i}.self_attn.attn") for i in indices)
        return
    for key in ("q_lora_rank", "index_n_heads"):
        config.integer(key)
    cache = indexer("", indexer_bytes(config), ("indexer_types, index_head_dim", why[1]))
    own = _owners(config, count)
    for i, is_sparse in zip(indices, sparse, strict=True):
        has_indexer = is_sparse and (i >= count or i in own)
        if has_indexer:
            yield cache._replace(name=f"model.layers.{i}.self_attn.indexer.k_cache")
        yield template._replace(name=f"model.layers.{i}.self_attn.attn", use_sparse=is_sparse, has_indexer=has_indexer)


def layers(model: Model) -> Iterator[Layer]:
    return hy_v4_layers(model, range(num_layers(model.config)))
