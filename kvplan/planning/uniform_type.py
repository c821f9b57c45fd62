"""Which specs can share a block table: merging equal ones, and types that need the same token slots.

From vllm/v1/kv_cache_interface.py: `merge` and `is_uniform_with_collection` of the spec classes, `merge` folded so that
adding a spec costs the same however many were added before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvplan.planning.layer_set import CannotPlan
from kvplan.spec import (
    FULL_ATTENTION,
    FULL_KINDS,
    MLA,
    MLA_KINDS,
    RSWA,
    SINK_FULL_ATTENTION,
    SLIDING_WINDOW,
    SLIDING_WINDOW_MLA,
    WINDOW_KINDS,
    AttentionSpec,
    Spec,
    StateSpec,
)


class Merge(NamedTuple):
    """What merging some specs has come to: the first spec, and what the others may add to it."""

    first: Spec
    key: tuple[object, ...]
    """`merge_key` of every merged spec."""
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    any_flag: bool = False
    """Whether any merged spec is non-causal (full attention) or decodes non-causal tokens (MLA)."""

    def result(self) -> Spec:
        """The spec that stands for all merged ones. Fields that vLLM's `merge` does not pass on fall back."""
        first = self.first
        if not isinstance(first, AttentionSpec):
            return first
        if first.kind in MLA_KINDS:
            return first._replace(
                alignment=None,
                sliding_window=None,
                attention_chunk_size=None,
                non_causal=False,
                non_causal_multi_token_decode=self.any_flag,
            )
        if first.kind == SLIDING_WINDOW_MLA:
            return first._replace(alignment=None, head_size_v=0, kv_quant_mode="none")
        if first.kind in FULL_KINDS:
            return first._replace(
                sliding_window=self.sliding_window,
                attention_chunk_size=self.attention_chunk_size,
                non_causal=self.any_flag,
            )
        return first


def merge_key(spec: Spec) -> tuple[object, ...]:
    """What specs must share to merge; most kinds must be equal. Sliding-window MLA pages are not compared by vLLM."""
    if not isinstance(spec, AttentionSpec):
        return spec
    if spec.kind == SLIDING_WINDOW_MLA:
        return (
            spec.kind,
            spec.sliding_window,
            spec.extra_retained_tokens,
            spec.cache_dtype_str,
            spec.tokens_per_state,
            spec.model_version,
            spec.bounded_replay,
            spec.block_stride_alignment,
            spec.dcp_sharded,
            spec.max_tp_shards,
        )
    if spec.kind not in FULL_KINDS:
        return spec
    page = (
        spec.block_size,
        spec.num_kv_heads,
        spec.head_size,
        spec.head_size_v,
        spec.dtype,
        spec.page_size_padded,
        spec.kv_quant_mode,
        spec.num_head_slots,
        spec.state_content_bytes,
        spec.tokens_per_state,
        spec.block_stride_alignment,
        spec.dcp_sharded,
        spec.max_tp_shards,
    )
    if spec.kind not in MLA_KINDS:
        return (FULL_ATTENTION, page)
    latent = (spec.cache_dtype_str, spec.topk_buffer_width, spec.model_version)
    return (MLA, page, latent, spec.cache_role, spec.is_index_group_leader)


def start(first: Spec) -> Merge | None:
    """A merge of one spec; None where vLLM cannot even merge the spec with itself."""
    key = merge_key(first)
    if not isinstance(first, AttentionSpec) or first.kind not in FULL_KINDS:
        return Merge(first, key)
    if first.kind in MLA_KINDS:
        return None if first.head_size_v else Merge(first, key, any_flag=first.non_causal_multi_token_decode)
    if first.kind == SINK_FULL_ATTENTION and first.tokens_per_state != 1:
        return None
    if first.sliding_window is not None and first.attention_chunk_size is not None:
        return None
    return Merge(first, key, first.sliding_window, first.attention_chunk_size, first.non_causal)


def extend(merge: Merge, spec: Spec) -> Merge | None:
    """``merge`` with one more spec, or None where vLLM's `merge` refuses. O(1)."""
    first = merge.first
    if merge_key(spec) != merge.key:
        return None
    if not isinstance(spec, AttentionSpec) or not isinstance(first, AttentionSpec) or spec.kind not in FULL_KINDS:
        return merge
    if spec.kind in MLA_KINDS:
        return merge._replace(any_flag=merge.any_flag or spec.non_causal_multi_token_decode)
    if first.kind == RSWA and (spec.kind, spec.rswa_window) != (RSWA, first.rswa_window):
        return None
    window, chunk = merge.sliding_window, merge.attention_chunk_size
    if window is None:
        window = spec.sliding_window
    if chunk is None:
        chunk = spec.attention_chunk_size
    clash = spec.sliding_window not in (None, window) or spec.attention_chunk_size not in (None, chunk)
    if clash or (window is not None and chunk is not None):
        return None
    return Merge(first, merge.key, window, chunk, merge.any_flag or spec.non_causal)


def merged(specs: Iterable[Spec]) -> Spec | None:
    """The spec that stands for all of ``specs`` (at least one), or None where they do not merge."""
    remaining = iter(specs)
    merge = start(next(remaining))
    for spec in remaining:
        if merge is None:
            return None
        merge = extend(merge, spec)
    return None if merge is None else merge.result()


def uniform_spec(specs: Sequence[Spec]) -> Spec | None:
    """The one spec of layers that all have the same (`is_kv_cache_spec_uniform`); None where they differ.

    CannotPlan where full-attention layers differ in window or chunk: vLLM does not catch that error here.
    """
    spec = merged(specs)
    if spec is None and _windows_differ(specs):
        raise CannotPlan(
            "full-attention caches with different windows or chunks "
            f"({', '.join(str(w) for w in _windows(specs))} tokens) cannot share a group; remove "
            "--disable-hybrid-kv-cache-manager if it is set."
        )
    return spec


def _windows(specs: Sequence[Spec]) -> list[int]:
    found = [s.sliding_window or s.attention_chunk_size for s in specs if isinstance(s, AttentionSpec)]
    return sorted({w for w in found if w is not None})


def _windows_differ(specs: Sequence[Spec]) -> bool:
    """Whether vLLM's merge of full-attention specs gets as far as comparing their windows, and they differ."""
    attention = [s for s in specs if isinstance(s, AttentionSpec) and s.kind in FULL_KINDS - MLA_KINDS]
    if len(attention) != len(specs):
        return False
    if attention[0].kind == RSWA and any(
        (s.kind, s.rswa_window) != (RSWA, attention[0].rswa_window) for s in attention
    ):
        return False
    windows = {s.sliding_window for s in attention} - {None}
    chunks = {s.attention_chunk_size for s in attention} - {None}
    return len(windows) > 1 or len(chunks) > 1


def type_key(spec: Spec) -> tuple[object, ...]:
    """What specs of one uniform type share (`UniformTypeKVCacheSpecs.is_uniform_type`)."""
    slots = (spec.block_size, spec.dcp_sharded)
    if isinstance(spec, StateSpec):
        return (
            *slots,
            spec.num_speculative_blocks,
            spec.num_prefill_checkpoint_blocks,
            spec.prefill_checkpoint_alignment,
            spec.page_size_bytes,
            spec.tp_replicated,
        )
    if spec.kind in FULL_KINDS:
        return (*slots, FULL_ATTENTION)
    if spec.kind in WINDOW_KINDS:
        return (*slots, SLIDING_WINDOW, spec.sliding_window)
    return (*slots, spec.kind, spec.attention_chunk_size)


def takes_in(first: Spec, spec: Spec) -> bool:
    """Whether layers of the type of ``first`` take in ``spec``, which has the same `type_key`.

    Not symmetric, as in vLLM: a sliding window takes in a sliding-window MLA of the same window, but not the reverse.
    """
    if not isinstance(first, AttentionSpec) or first.kind != SLIDING_WINDOW_MLA:
        return True
    return isinstance(spec, AttentionSpec) and (spec.kind, spec.bounded_replay) == (first.kind, first.bounded_replay)


def one_type(specs: Sequence[Spec]) -> bool:
    """Whether all of ``specs`` (at least one) are of the first one's type."""
    first = specs[0]
    key = type_key(first)
    return all(spec is first or (type_key(spec) == key and takes_in(first, spec)) for spec in specs)
