"""Groups as an earlier release made them: one page size by its rules, buckets, and the group size.

From `get_kv_cache_groups` (before 0.11.0 `get_kv_cache_config`) and `_get_kv_cache_groups_uniform_page_size` of
vllm/v1/core/kv_cache_utils.py; from 0.29.0 on the plan's own grouping is the release's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.errors import Refused
from kvplan.logs.rules import Rules
from kvplan.planning.groups import group_layers, one_group
from kvplan.planning.layer_set import CannotPlan, Grouped, LayerSet, intern
from kvplan.planning.uniform_page import Bucket, GroupSize, buckets_of, main_group_size, uniform_page_groups
from kvplan.planning.uniform_type import one_type, uniform_spec
from kvplan.planning.unify import page_size, without_hybrid_manager
from kvplan.spec import HIDDEN_STATE, SLIDING_WINDOW_MLA, AttentionSpec, CacheLayer, Spec, StateSpec
from kvplan.verify.packed_tuples import tuple_groups

# Backends whose pages may be further apart than they are long, before every backend could.
_STRIDED = frozenset(("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION", "FLASH_ATTN_DIFFKV"))


class PaddedBucket(NamedTuple):
    """Layers of one kind that the group size does not divide."""

    layers: int
    """Padding layers that are added."""
    percent: float
    """Of the kind's own layers."""


class Groups(NamedTuple):
    """All layers in groups, and what the release pads them with."""

    groups: tuple[Grouped, ...]
    padding: tuple[PaddedBucket, ...] = ()
    packed_bytes: int | None = None
    """Bytes of a block where groups are packed by layer tuples (DeepSeek-V4 before 0.29.0); else None."""


def release_groups(
    rules: Rules,
    layers: Sequence[CacheLayer],
    *,
    block_outermost: bool,
    disable_hybrid_kv_cache_manager: bool,
    group_size: GroupSize | None = None,
) -> Groups:
    """Every layer in one group. CannotPlan where the release's own grouping stops.

    ``group_size`` stands in for the release's own, from 0.29.0 on (vLLM pull request 58207).
    """
    interned = intern([layer.spec for layer in layers])
    without_manager = disable_hybrid_kv_cache_manager or rules.hybrid == "full_attention"
    if rules.layout == "six":
        return _with_padding(interned, block_outermost, disable_hybrid_kv_cache_manager, group_size or _released_size)
    if group_size is not None:
        raise Refused(f"the grouping of vllm-next is not one of vLLM {rules.release}; leave --engine out.")
    if without_manager:
        interned = without_hybrid_manager(interned)
    if not interned.layers:
        return Groups(())
    spec = uniform_spec(interned.specs)
    if spec is not None:
        return Groups((Grouped(interned.layers, spec),))
    if one_type(interned.specs):
        return Groups((one_group(interned),))
    if any(spec.kind == HIDDEN_STATE for spec in interned.specs):
        raise Refused(f"hidden-state caches are not verified for vLLM {rules.release}, only from 0.29.0 on.")
    if any(spec.kind == SLIDING_WINDOW_MLA for spec in interned.specs):
        if rules.packed == "none":
            raise CannotPlan(f"vLLM {rules.release} has no groups for sliding-window MLA")
        groups, size = tuple_groups(interned, whole_tuples=rules.packed == "deepseek_v4")
        return Groups(tuple(groups), packed_bytes=size)
    return _uniform_page(rules, unified(rules, interned, layers))


def _released_size(buckets: Sequence[Bucket]) -> int:
    return main_group_size([len(bucket.layers) for bucket in buckets])


def _with_padding(layers: LayerSet, block_outermost: bool, disable: bool, size: GroupSize) -> Groups:
    """0.29.0 on: the plan's grouping; the padding is read off the groups of each kind."""
    grouped = group_layers(
        layers,
        block_outermost=block_outermost,
        group_size=size,
        disable_hybrid_kv_cache_manager=disable,
    )
    if grouped.group_size is None:
        return Groups(tuple(grouped.groups))
    counts: dict[Spec, int] = {}
    for group in grouped.groups:
        counts[group.spec] = counts.get(group.spec, 0) + len(group.layers)
    return Groups(tuple(grouped.groups), padding_of(list(counts.values()), grouped.group_size))


def padding_of(counts: Sequence[int], group_size: int) -> tuple[PaddedBucket, ...]:
    """What each kind is padded with, in the order of the kinds; nothing where the group size divides it."""
    short = [(-count % group_size, count) for count in counts]
    return tuple(PaddedBucket(missing, 100 * missing / count) for missing, count in short if missing)


def unified(rules: Rules, layers: LayerSet, named: Sequence[CacheLayer]) -> LayerSet:
    """All layers brought to the largest page as the release does it. CannotPlan where it does not."""
    pages = [page_size(spec) for spec in layers.specs]
    largest = max(pages)
    if len(set(pages)) == 1:
        return layers
    if rules.pages == "equal":
        raise CannotPlan(f"vLLM {rules.release} takes pages of one size only, and these differ")
    first = {i: named[members[0]].backend for i, members in enumerate(layers.layers_by_spec())}
    grown = [
        spec if page == largest else _grown(rules, spec, page, largest, first[i])
        for i, (spec, page) in enumerate(zip(layers.specs, pages, strict=True))
    ]
    return layers.with_specs(grown)


def _grown(rules: Rules, spec: Spec, page: int, largest: int, backend: str) -> Spec:
    if isinstance(spec, StateSpec):
        if rules.pages == "state_padded":
            return spec._replace(page_size_padded=largest)
    elif largest % page == 0:
        return _checked(rules, spec.rebuilt(block_size=spec.block_size * (largest // page)), largest)
    elif rules.pages != "scaled" and backend in _STRIDED:
        return _checked(rules, spec.rebuilt(page_size_padded=largest), largest)
    raise CannotPlan(
        f"vLLM {rules.release} cannot bring a {spec.kind} page of {page:,} bytes to the largest page of {largest:,} "
        "bytes"
    )


def _checked(rules: Rules, spec: AttentionSpec, largest: int) -> AttentionSpec:
    if spec.page_size_bytes != largest:
        raise CannotPlan(f"vLLM {rules.release} cannot bring a padded {spec.kind} page to {largest:,} bytes")
    return spec


def _uniform_page(rules: Rules, layers: LayerSet) -> Groups:
    buckets = buckets_of(layers) if rules.buckets == "merged" else _by_spec(layers)
    counts = [len(bucket.layers) for bucket in buckets]
    size = released_group_size(rules, counts)
    if rules.buckets == "merged":
        groups, _ = uniform_page_groups(layers, lambda _: size)
    else:
        groups = [
            Grouped(bucket.layers[i::number], bucket.specs[0])
            for bucket in buckets
            for number in (-(-len(bucket.layers) // size),)
            for i in range(number)
        ]
    return Groups(tuple(groups), padding_of(counts, size))


def _by_spec(layers: LayerSet) -> list[Bucket]:
    return [
        Bucket(members, [spec]) for spec, members in zip(layers.specs, layers.layers_by_spec(), strict=True) if members
    ]


def released_group_size(rules: Rules, counts: Sequence[int]) -> int:
    """Layers of a group: the smallest kind's, or the largest's where the release finds that close enough."""
    smallest, largest = min(counts), max(counts)
    if rules.group_size == "smallest":
        return smallest
    factor = 1.25 if rules.group_size == "largest_below_1.25" else 1.5
    return largest if largest < smallest * factor else smallest
