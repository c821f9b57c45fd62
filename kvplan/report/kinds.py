"""What the reports call the kinds of cached layers: one letter for drawings, a few words for tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvplan import spec as s
from kvplan.report.numbers import number
from kvplan.spec import AttentionSpec, CacheLayer, Spec, StateSpec

LETTERS = {
    s.FULL_ATTENTION: "F",
    s.MAMBA: "M",
    s.SLIDING_WINDOW: "S",
    s.CHUNKED_LOCAL: "C",
    s.MLA: "L",
    s.SLIDING_WINDOW_MLA: "W",
    s.CIRCULAR_BUFFER: "R",
    s.CROSS_ATTENTION: "X",
    s.SINK_FULL_ATTENTION: "K",
    s.RSWA: "A",
    s.HIDDEN_STATE: "H",
}
_ROLES = (("compressor", "P", "compressor state"), ("index", "I", "indexer"))
"""Caches of a latent's kind that have another use: a part of the layer's name, their letter and their word."""

_SHORT = {
    "F": "full",
    "M": "mamba",
    "S": "sw",
    "C": "chunk",
    "L": "mla",
    "W": "sw-mla",
    "R": "ring",
    "X": "cross",
    "K": "sink",
    "A": "rswa",
    "H": "hidden",
    "I": "index",
    "P": "comp",
    "?": "other",
}

_STATES = {
    "mamba1": "Mamba-1 state",
    "mamba2": "Mamba-2 state",
    "gdn_attention": "gated delta net state",
    "gdn": "gated delta net state",
    "linear_attention": "linear attention state",
    "short_conv": "short convolution state",
    "kda": "KDA state",
}


def letter(name: str, owner: str, spec: Spec) -> str:
    """The layer's letter: upper case for the target, lower case for the drafter."""
    role = _role(name, spec)
    found = role[0] if role else LETTERS.get(spec.kind, "?")
    return found.lower() if owner == "drafter" else found


def _role(name: str, spec: Spec) -> tuple[str, str] | None:
    """Letter and word of a latent-like cache that is not the layer's own KV; vLLM's layer name tells it."""
    if spec.kind not in (s.MLA, s.SLIDING_WINDOW_MLA):
        return None
    return next(((mark, word) for part, mark, word in _ROLES if part in name), None)


def short(letters: str) -> str:
    """The short word of a letter of either case, for the labels of drawings."""
    return _SHORT.get(letters.upper(), "other")


def words(name: str, spec: Spec) -> str:
    """The layer's kind in a few words, with the length that bounds it: ``sliding window 4,096``."""
    if isinstance(spec, StateSpec):
        name = spec.mamba_type.lower().removesuffix("_attn")
        return _STATES.get(name, f"{name} state")
    role = _role(name, spec)
    if role and spec.kind == s.MLA:
        return _compressed(role[1], spec)
    match spec.kind:
        case s.FULL_ATTENTION:
            return "full attention"
        case s.SLIDING_WINDOW:
            return f"sliding window {number(spec.sliding_window or 0)}"
        case s.CHUNKED_LOCAL:
            return f"chunked local {number(spec.attention_chunk_size or 0)}"
        case s.MLA:
            return _compressed("MLA latent", spec)
        case s.SLIDING_WINDOW_MLA:
            return f"{role[1] if role else 'window latent'} {number(spec.sliding_window or 0)}"
        case s.CIRCULAR_BUFFER:
            return "circular buffer"
        case s.CROSS_ATTENTION:
            return "cross attention"
        case s.SINK_FULL_ATTENTION:
            return f"full attention, sink {number(spec.sink_len or 0)}"
        case s.RSWA:
            return f"full attention, rswa {number(spec.rswa_window or 0)}"
        case s.HIDDEN_STATE:
            return "hidden states"
    return spec.kind.replace("_", " ")


def _compressed(what: str, spec: AttentionSpec) -> str:
    return what if spec.tokens_per_state == 1 else f"{what}, 1 per {spec.tokens_per_state} tokens"


def grows(spec: Spec) -> bool:
    """Whether the layer's cache grows with the request's length up to max_model_len."""
    return spec.kind in s.FULL_KINDS


class Fold(NamedTuple):
    """Layers that cache the same: one row of a table."""

    letter: str
    words: str
    owner: str
    layers: tuple[CacheLayer, ...]

    @property
    def first(self) -> CacheLayer:
        return self.layers[0]


def fold(layers: Iterable[CacheLayer]) -> list[Fold]:
    """Layers with equal specs and backends together, in the order of their first."""
    found: dict[object, list[CacheLayer]] = {}
    for layer in layers:
        key = (layer.owner, layer.spec, layer.backend, layer.kernel_block_sizes, _role(layer.name, layer.spec))
        found.setdefault(key, []).append(layer)
    return [
        Fold(
            letter(members[0].name, members[0].owner, members[0].spec),
            words(members[0].name, members[0].spec),
            members[0].owner,
            tuple(members),
        )
        for members in found.values()
    ]


def heads(spec: Spec) -> str:
    """Heads and head sizes of one rank, ``2 x 256`` or ``8 x 192/128``; a state's shapes, ``10x8192 32x128x128``."""
    if isinstance(spec, StateSpec):
        return " ".join("x".join(str(n) for n in shape) for shape in spec.shapes)
    sizes = str(spec.head_size)
    if spec.head_size_v not in (spec.head_size, 0):
        sizes += f"/{spec.head_size_v}"
    return f"{spec.num_kv_heads} x {sizes}"


def dtypes(spec: Spec) -> str:
    """The element types of the cache, each once."""
    if isinstance(spec, StateSpec):
        return " ".join(dict.fromkeys(spec.dtypes))
    return spec.dtype


def block(spec: Spec, max_model_len: int | None) -> str:
    """Tokens of a block; of a state that is kept once per request, ``request``."""
    if isinstance(spec, StateSpec) and spec.mamba_cache_mode == "none" and spec.block_size == max_model_len:
        return "request"
    return number(spec.block_size)


def occupied(spec: Spec, layout: str) -> int:
    """Bytes that a layer occupies in a block: its page, in a layer-outermost layout the stride between two pages."""
    size = spec.page_size_bytes
    return size if layout.startswith("B") else s.round_up(size, max(1, spec.block_stride_alignment_bytes))
