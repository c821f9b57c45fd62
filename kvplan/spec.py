"""What one layer caches: the specs that vLLM groups, sizes and places (vllm/v1/kv_cache_interface.py).

A spec is a value: equal specs are equal tuples, hashable, cheap to compare. Which model owns the layer is kept
beside the spec (`CacheLayer.owner`), because it must never influence grouping.
"""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.dtypes import size_of

if TYPE_CHECKING:
    from fractions import Fraction  # costs 3 ms, and few models have one

FULL_ATTENTION = "full_attention"
SLIDING_WINDOW = "sliding_window"
CHUNKED_LOCAL = "chunked_local"
MLA = "mla"
SLIDING_WINDOW_MLA = "sliding_window_mla"
MAMBA = "mamba"
CIRCULAR_BUFFER = "circular_buffer"
CROSS_ATTENTION = "cross_attention"
SINK_FULL_ATTENTION = "sink_full_attention"
RSWA = "rswa"
HIDDEN_STATE = "hidden_state"

# Kinds whose spec class derives from vLLM's FullAttentionSpec, its MLAAttentionSpec or its SlidingWindowSpec.
FULL_KINDS = frozenset({FULL_ATTENTION, MLA, SINK_FULL_ATTENTION, RSWA, HIDDEN_STATE})
MLA_KINDS = frozenset({MLA, HIDDEN_STATE})
WINDOW_KINDS = frozenset({SLIDING_WINDOW, SLIDING_WINDOW_MLA})


def cdiv(a: int, b: int) -> int:
    """The quotient a / b rounded up."""
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    """The smallest multiple of b that is at least a."""
    return -(-a // b) * b


class MultipleOf(NamedTuple):
    """Any multiple of ``base`` tokens (vllm/v1/attention/backend.py)."""

    base: int


class Limits(NamedTuple):
    """What bounds the blocks that one request can hold."""

    max_model_len: int
    max_in_flight_tokens: int
    """Tokens scheduled but not settled: concurrent batches x max_num_batched_tokens."""
    mamba_cache_mode: str = "none"
    decode_context_parallel_size: int = 1
    max_num_encoder_input_tokens: int = 0


class AttentionSpec(NamedTuple):
    """The cache of one attention-like layer on one rank; every kind but `mamba`.

    Sizes: heads and head sizes are counts, ``*_bytes`` are bytes, ``block_size`` and windows are tokens.
    Fields have the names and meaning of vLLM's spec classes; those a kind has no use for keep their default.
    """

    kind: str
    block_size: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    dtype: str
    kv_quant_mode: str = "none"
    page_size_padded: int | None = None
    num_head_slots: int | None = None
    state_content_bytes: int | None = None
    tokens_per_state: int | Fraction = 1
    block_stride_alignment: int | MultipleOf | None = None
    dcp_sharded: bool = True
    max_tp_shards: int | None = None
    sliding_window: int | None = None
    extra_retained_tokens: int = 0
    attention_chunk_size: int | None = None
    non_causal: bool = False
    cache_dtype_str: str | None = None
    topk_buffer_width: int | None = None
    alignment: int | None = None
    model_version: str | None = None
    cache_role: str = "sparse"
    is_index_group_leader: bool = False
    non_causal_multi_token_decode: bool = False
    bounded_replay: bool = False
    rswa_window: int | None = None
    sink_len: int | None = None

    @property
    def num_heads(self) -> int:
        """Head slots of a page: what the layout calls H."""
        return self.num_kv_heads if self.num_head_slots is None else self.num_head_slots

    def num_states_in(self, tokens: int) -> int:
        """Stored states that ``tokens`` tokens take."""
        return int(tokens // self.tokens_per_state)

    @property
    def num_states(self) -> int:
        """Stored states in one block."""
        return self.num_states_in(self.block_size)

    @property
    def state_content_size_bytes(self) -> int:
        """Bytes of one stored state in one head slot: what the layout calls C."""
        if self.state_content_bytes is not None:
            return self.state_content_bytes
        return (self.head_size + self.head_size_v) * size_of(self.dtype)

    @property
    def unpadded_page_size_bytes(self) -> int:
        return self.num_heads * self.num_states * self.state_content_size_bytes

    @property
    def page_size_bytes(self) -> int:
        """Bytes that the layer occupies in one block: padded to whole rows, else to ``page_size_padded``.

        A row ``alignment`` that the page is not a multiple of comes before ``page_size_padded``
        (`_apply_alignment_padding` overwrites it).
        """
        size = self.unpadded_page_size_bytes
        if self.alignment is not None and size % self.alignment:
            return round_up(size, self.alignment)
        return size if self.page_size_padded is None else self.page_size_padded

    def with_row_padding(self) -> AttentionSpec:
        """The spec as vLLM holds it once built: row padding written into ``page_size_padded``."""
        page = self.page_size_bytes
        if self.alignment is None or page == (self.page_size_padded or self.unpadded_page_size_bytes):
            return self
        return self._replace(page_size_padded=page)

    def rebuilt(self, **changes: Any) -> AttentionSpec:
        """The spec with ``changes``, built anew (`dataclasses.replace`): old padding stays unless rows pad it again."""
        return self.with_row_padding()._replace(**changes).with_row_padding()

    @property
    def block_stride_alignment_bytes(self) -> int:
        """Bytes that the stride between two physical blocks must be a multiple of.

        ``MultipleOf(n)``: a page of the kernel block, unless the block runs whole. Padding of the whole block's page
        is not scaled down with it (`get_block_stride_alignment`).
        """
        alignment = self.block_stride_alignment
        if not isinstance(alignment, MultipleOf):
            return alignment or 1
        kernel_block_size = gcd(alignment.base, self.block_size)
        if kernel_block_size == self.block_size:
            return 1
        return self.rebuilt(block_size=kernel_block_size).page_size_bytes

    def blocks_per_request(self, limits: Limits) -> int:
        """Blocks that one request holds at most, by kind (`max_memory_usage_bytes` of vLLM's spec classes)."""
        kind, block_size = self.kind, self.block_size
        if kind in FULL_KINDS:
            length = limits.max_model_len
            if self.dcp_sharded and limits.decode_context_parallel_size > 1:
                length = cdiv(length, limits.decode_context_parallel_size)
            return cdiv(length, block_size)
        if kind in WINDOW_KINDS:
            retained = (self.sliding_window or 0) - 1 + self.extra_retained_tokens + limits.max_in_flight_tokens
            return cdiv(min(retained, limits.max_model_len), block_size) + 1
        if kind == CHUNKED_LOCAL:
            retained = (self.attention_chunk_size or 0) + limits.max_in_flight_tokens
            return cdiv(min(retained, limits.max_model_len), block_size)
        if kind == CIRCULAR_BUFFER:
            return 1
        if kind == CROSS_ATTENTION:
            return cdiv(limits.max_num_encoder_input_tokens, block_size)
        raise ValueError(f"no rule for the worst case of kind {kind!r}")


class StateSpec(NamedTuple):
    """The recurrent state of one Mamba-like layer on one rank: a size fixed by shapes, not by tokens."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    block_size: int
    """Tokens between two cached states: max_model_len without prefix caching."""
    page_size_padded: int | None = None
    mamba_type: str = "mamba2"
    mamba_cache_mode: str = "none"
    num_speculative_blocks: int = 0
    num_prefill_checkpoint_blocks: int = 0
    prefill_checkpoint_alignment: int | None = None
    tp_replicated: bool = False
    kind: str = MAMBA
    dcp_sharded: bool = False
    num_heads: int = 1
    num_states: int = 1

    @property
    def unpadded_page_size_bytes(self) -> int:
        return sum(prod(shape) * size_of(dtype) for shape, dtype in zip(self.shapes, self.dtypes, strict=True))

    @property
    def page_size_bytes(self) -> int:
        """Bytes that the state occupies in one block, padding included."""
        return self.unpadded_page_size_bytes if self.page_size_padded is None else self.page_size_padded

    @property
    def block_stride_alignment_bytes(self) -> int:
        return 1

    def blocks_per_request(self, limits: Limits) -> int:
        """1 + drafted tokens; in `align` mode one more, and the prefill checkpoint."""
        if limits.mamba_cache_mode == "align":
            return 2 + self.num_speculative_blocks + self.num_prefill_checkpoint_blocks
        return 1 + self.num_speculative_blocks


Spec = AttentionSpec | StateSpec


class CacheLayer(NamedTuple):
    """One layer with a cache of its own, in the engine's order."""

    name: str
    """vLLM's name of the layer, as it stands in its logs."""
    owner: str
    """``target`` or ``drafter``."""
    spec: Spec
    backend: str
    kernel_block_sizes: tuple[int | MultipleOf, ...] = ()
    why: tuple[str, str] = ("", "")
    """The config field that decided the layer's kind, and the vLLM file that reads it."""
    stage: int = 0
    """Pipeline stage that runs the layer."""
    passed_over: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Better-ranked backends, best first, each with what it cannot do for the layer."""
