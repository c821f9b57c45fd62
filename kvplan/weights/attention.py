"""Attention layers with query, key and value heads, as most decoders have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.families.common import divided_head_dim, head_dim
from kvplan.hf.config import Config
from kvplan.weights.builder import Builder

HEAD, RANK, WHOLE = "head", "rank", "whole"
"""Widths of a norm on queries and keys: one head, the heads of the rank, or the heads of the whole model."""


class Heads(NamedTuple):
    """Heads of the whole model and the elements of each."""

    query: int
    kv: int
    size: int
    size_v: int | None = None


def heads_of(config: Config, *, divided: bool = False) -> Heads:
    """Heads under their usual names; ``divided`` where the model class reads no head_dim."""
    count = config.integer("num_attention_heads")
    size = divided_head_dim(config) if divided else head_dim(config)
    return Heads(count, config.integer("num_key_value_heads", count), size)


def rope_parameters(config: Config, kind: str | None = None) -> Mapping[str, Any]:
    """``rope_parameters``, or those of one layer type where they are nested."""
    value = config.get("rope_parameters")
    if kind is not None and isinstance(value, Mapping):
        value = value.get(kind)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise config.error("rope_parameters", f"must be a JSON object, got {value!r}")
    return value


def positions(config: Config, default: int = 8192) -> int:
    """Length of the table of rotary positions before scaling."""
    return config.integer("max_position_embeddings", default)


def projections(
    b: Builder,
    prefix: str,
    heads: Heads,
    *,
    hidden: int | None = None,
    bias: bool = False,
    out_bias: bool | None = None,
    out: str = "o_proj",
    qkv: str = "qkv_proj",
    input_size: int | None = None,
) -> None:
    """The fused projection to q, k and v, and the one back; the output's bias is as the input's unless given."""
    hidden = b.config.integer("hidden_size") if hidden is None else hidden
    b.qkv(
        f"{prefix}.{qkv}",
        hidden if input_size is None else input_size,
        heads.size,
        heads.query,
        heads.kv,
        head_size_v=heads.size_v,
        bias=bias,
    )
    value = heads.size if heads.size_v is None else heads.size_v
    b.row(f"{prefix}.{out}", heads.query * value, hidden, bias=bias if out_bias is None else out_bias)


def qk_norms(
    b: Builder, prefix: str, heads: Heads, width: str = HEAD, names: tuple[str, str] = ("q_norm", "k_norm")
) -> None:
    """Norms on queries and keys."""
    own = {RANK: b.model.heads_per_rank(heads.query), WHOLE: heads.query}.get(width, 1)
    own_kv = {RANK: b.model.kv_heads_per_rank(heads.kv), WHOLE: heads.kv}.get(width, 1)
    for name, count in zip(names, (own, own_kv), strict=True):
        b.norm(f"{prefix}.{name}", count * heads.size)


def gated_mlp(
    b: Builder,
    prefix: str,
    intermediate: int,
    *,
    hidden: int | None = None,
    bias: bool = False,
    names: tuple[str, str] = ("gate_up_proj", "down_proj"),
    replicated: bool = False,
) -> None:
    """A feed-forward layer whose gate and up projections are fused; ``replicated`` where it is not split at all."""
    hidden = b.config.integer("hidden_size") if hidden is None else hidden
    if replicated:
        b.replicated(f"{prefix}.{names[0]}", hidden, (intermediate, intermediate), bias=bias)
        b.replicated(f"{prefix}.{names[1]}", intermediate, hidden, bias=bias)
        return
    b.column(f"{prefix}.{names[0]}", hidden, (intermediate, intermediate), bias=bias)
    b.row(f"{prefix}.{names[1]}", intermediate, hidden, bias=bias)
