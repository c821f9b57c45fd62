"""Groups of layers with one page size: buckets of equal specs, cut into groups of one size.

From `_get_kv_cache_groups_uniform_page_size` (vllm/v1/core/kv_cache_planning.py) and, for the group size of
`uniform`, vLLM pull request 58207.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvplan.planning.layer_set import CannotPlan, Grouped, LayerSet
from kvplan.planning.uniform_type import Merge, extend, merge_key, merged, start
from kvplan.spec import Spec, cdiv


class Bucket(NamedTuple):
    """Layers whose specs merge: they can be dealt to groups in any way."""

    layers: list[int]
    specs: list[Spec]
    """The distinct specs among them."""


GroupSize = Callable[[Sequence[Bucket]], int]
"""How many layers a group gets, from all buckets."""


def main_group_size(counts: Sequence[int]) -> int:
    """vLLM 0.33.0: the smallest bucket's layers, or the largest's if that is less than 1.5 times as many."""
    smallest, largest = min(counts), max(counts)
    return largest if largest < smallest * 1.5 else smallest


def least_padding_group_size(counts: Sequence[int], worst_case_bytes: Sequence[int], minimum: int) -> int:
    """Pull request 58207: the size that pads least, counted in worst-case bytes of one request; then fewest groups.

    ``worst_case_bytes``: per bucket, what one layer holds for a request of max_model_len. ``minimum``:
    --min-kv-cache-group-layers, which never asks for more than the largest bucket has. The smallest best size wins.
    """
    largest = max(counts)
    low = min(max(min(counts), minimum), largest)
    worst_by_count: dict[int, tuple[int, int]] = {}
    for worst, count in zip(worst_case_bytes, counts, strict=True):
        total, buckets = worst_by_count.get(count, (0, 0))
        worst_by_count[count] = (total + worst, buckets + 1)
    best, best_cost = low, None
    for size in range(low, largest + 1):
        padding = groups = 0
        for count, (worst, buckets) in worst_by_count.items():
            short = -count % size
            padding += worst * short
            groups += buckets * ((count + short) // size)
        if best_cost is None or (padding, groups) < best_cost:
            best, best_cost = size, (padding, groups)
    return best


def buckets_of(layers: LayerSet) -> list[Bucket]:
    """Layers by spec, each spec put into the first bucket that merges with it."""
    buckets: list[Bucket] = []
    merges: list[Merge | None] = []
    candidates: dict[tuple[object, ...], list[int]] = {}
    for spec, members in zip(layers.specs, layers.layers_by_spec(), strict=True):
        positions = candidates.setdefault(merge_key(spec), [])
        for i in positions:
            merge = merges[i]
            extended = None if merge is None else extend(merge, spec)
            if extended is not None:
                merges[i] = extended
                buckets[i].layers.extend(members)
                buckets[i].specs.append(spec)
                break
        else:
            positions.append(len(buckets))
            buckets.append(Bucket(members, [spec]))
            merges.append(start(spec))
    return buckets


def deal(layers: Sequence[int], group_size: int) -> list[Sequence[int]]:
    """Layers dealt round-robin to as many groups as ``group_size`` asks for, so that pipeline stages share evenly."""
    groups = cdiv(len(layers), group_size)
    return [layers[i::groups] for i in range(groups)]


def uniform_page_groups(layers: LayerSet, group_size: GroupSize) -> tuple[list[Grouped], int]:
    """The groups of layers that all have one page size, and the size they were cut to. CannotPlan without layers."""
    buckets = buckets_of(layers)
    if not buckets:
        raise CannotPlan("only hidden-state caches are left to group; vLLM plans them next to attention layers only.")
    size = group_size(buckets)
    return [group for bucket in buckets for group in _bucket_groups(bucket, size, layers)], size


def _bucket_groups(bucket: Bucket, size: int, layers: LayerSet) -> list[Grouped]:
    dealt = deal(bucket.layers, size)
    if len(bucket.specs) == 1:
        spec = _merged(bucket.specs)
        return [Grouped(group, spec) for group in dealt]
    by_layer = layers.spec_by_layer()
    own = [{id(by_layer[layer]): by_layer[layer] for layer in group} for group in dealt]
    return [Grouped(group, _merged(list(specs.values()))) for group, specs in zip(dealt, own, strict=True)]


def _merged(specs: Sequence[Spec]) -> Spec:
    spec = merged(specs)
    if spec is None:
        raise CannotPlan(
            f"vLLM stops: {len(specs)} {specs[0].kind} caches are dealt to one group, but their windows, sinks or "
            "replay settings differ."
        )
    return spec
