"""From the layers' specs to groups: the fast exits, then packed or uniform-page grouping, then hidden-state caches.

From `get_kv_cache_groups` and `get_global_kv_cache_groups` (vllm/v1/core/kv_cache_planning.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import NamedTuple

from kvplan.dtypes import size_of
from kvplan.planning.layer_set import CannotPlan, Grouped, LayerSet, PagesCannotUnify
from kvplan.planning.packed import packed_groups
from kvplan.planning.uniform_page import GroupSize, uniform_page_groups
from kvplan.planning.uniform_type import one_type, uniform_spec
from kvplan.planning.unify import full_allocation_fallback, page_size, unify_page_sizes, without_hybrid_manager
from kvplan.spec import HIDDEN_STATE, WINDOW_KINDS, AttentionSpec, Spec, cdiv


class Grouping(NamedTuple):
    """All layers in groups."""

    groups: list[Grouped]
    group_size: int | None = None
    """Layers of a group where groups were cut to one size; None where layers were grouped otherwise."""
    notes: tuple[str, ...] = ()


def retain(layers: LayerSet, extra_retained_tokens: int) -> LayerSet:
    """Sliding windows widened by the tokens that a drafter of several MTP modules may compute again."""

    def widened(spec: Spec) -> Spec:
        if isinstance(spec, AttentionSpec) and spec.kind in WINDOW_KINDS:
            return spec.rebuilt(extra_retained_tokens=extra_retained_tokens)
        return spec

    return layers.mapped(widened)


def group_layers(
    layers: LayerSet, *, block_outermost: bool, group_size: GroupSize, disable_hybrid_kv_cache_manager: bool = False
) -> Grouping:
    """Every layer in exactly one group. CannotPlan where vLLM's own grouping stops."""
    if disable_hybrid_kv_cache_manager:
        layers = without_hybrid_manager(layers)
    if not layers.layers:
        return Grouping([])
    spec = uniform_spec(layers.specs)
    if spec is not None:
        return Grouping([Grouped(layers.layers, spec)])
    if one_type(layers.specs):
        return Grouping([one_group(layers)])
    attention = layers.where(lambda s: s.kind != HIDDEN_STATE)
    hidden = layers.where(lambda s: s.kind == HIDDEN_STATE)
    if block_outermost and (packed := packed_groups(attention)):
        return Grouping(packed + hidden_groups(hidden))
    try:
        unified = unify_page_sizes(attention)
    except PagesCannotUnify:
        fallback = full_allocation_fallback(layers)
        if fallback is None:
            raise
        note = (
            "pages cannot be unified, so sliding-window layers hold blocks for every token; attention keeps its window"
        )
        return Grouping([one_group(fallback)], notes=(note,))
    groups, size = uniform_page_groups(unified, group_size)
    if hidden.layers:
        groups = with_hidden_states(groups, hidden)
    return Grouping(groups, size)


def one_group(layers: LayerSet) -> Grouped:
    """All layers in one group that keeps their own specs."""
    own = tuple([layers.specs[i] for i in layers.ids])
    return Grouped(layers.layers, own[0], own)


def hidden_groups(hidden: LayerSet) -> list[Grouped]:
    """A group for each hidden-state layer."""
    return [Grouped([layer], hidden.specs[i]) for layer, i in zip(hidden.layers, hidden.ids, strict=True)]


def with_hidden_states(groups: Sequence[Grouped], hidden: LayerSet) -> list[Grouped]:
    """``groups`` and one for each hidden-state layer, its page padded to theirs.

    Where a token's hidden state is wider than their page, their blocks grow first (`_ensure_min_page_size`).
    """
    common_page = one_page_size(group.spec for group in groups)
    widest_token = max(token_bytes(spec) for spec in hidden.specs)
    if widest_token > common_page:
        scale = cdiv(widest_token, common_page)
        common_page *= scale
        groups = [group._replace(spec=scaled(group.spec, scale)) for group in groups]
    block_size = gcd(*(group.spec.block_size for group in groups))
    aligned = hidden.mapped(lambda spec: aligned_to(spec, block_size, common_page))
    return [*groups, *hidden_groups(aligned)]


def one_page_size(specs: Iterable[Spec]) -> int:
    """The page size that all specs share. CannotPlan where they do not (`get_uniform_page_size`)."""
    pages = {page_size(spec) for spec in specs}
    if len(pages) != 1:
        raise CannotPlan(
            f"hidden-state caches need attention pages of one size, but there are {len(pages)} "
            f"({', '.join(map(str, sorted(pages)))} bytes); choose another --block-size."
        )
    return pages.pop()


def token_bytes(spec: Spec) -> int:
    """Bytes of one token's hidden state."""
    assert isinstance(spec, AttentionSpec)
    return spec.num_kv_heads * spec.head_size * size_of(spec.dtype)


def scaled(spec: Spec, scale: int) -> Spec:
    """The spec with ``scale`` times the tokens in a block, and as many times the padding."""
    changes = {"block_size": spec.block_size * scale}
    if spec.page_size_padded is not None:
        changes["page_size_padded"] = spec.page_size_padded * scale
    return spec.rebuilt(**changes) if isinstance(spec, AttentionSpec) else spec._replace(**changes)  # type: ignore[arg-type]


def aligned_to(spec: Spec, block_size: int, common_page: int) -> Spec:
    """A hidden-state spec with the largest block that divides ``block_size`` and fits into ``common_page`` bytes."""
    assert isinstance(spec, AttentionSpec)
    fits = max(common_page // token_bytes(spec), 1)
    tokens = next(n for n in range(min(block_size, fits), 0, -1) if block_size % n == 0)
    return spec.rebuilt(block_size=tokens, page_size_padded=common_page)


def on_stages(groups: Sequence[Grouped], stages: Sequence[int], num_stages: int) -> list[list[Grouped]]:
    """The groups as each pipeline stage sees them: its own layers, possibly none.

    ``stages``: the stage of each layer. (`_project_kv_cache_groups_to_worker`.)
    """
    out: list[list[Grouped]] = [[] for _ in range(num_stages)]
    for group in groups:
        members: list[list[int]] = [[] for _ in range(num_stages)]
        own: list[list[Spec]] = [[] for _ in range(num_stages)]
        specs = group.layer_specs or (group.spec,) * len(group.layers)
        for layer, spec in zip(group.layers, specs, strict=True):
            members[stages[layer]].append(layer)
            own[stages[layer]].append(spec)
        for stage, (mine, kept) in enumerate(zip(members, own, strict=True)):
            out[stage].append(Grouped(mine, group.spec, None if group.layer_specs is None else tuple(kept)))
    return out
