"""Groups for block-outermost layouts, where one block may hold pages of several sizes.

From `_get_packed_kv_cache_groups` and `_approximate_gcd` (vllm/v1/core/kv_cache_planning.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.planning.layer_set import CannotPlan, Grouped, LayerSet
from kvplan.planning.uniform_type import one_type, takes_in, type_key
from kvplan.planning.unify import page_size
from kvplan.spec import CIRCULAR_BUFFER, MAMBA, WINDOW_KINDS, Spec, cdiv


class Bucket(NamedTuple):
    """Layers of one uniform type."""

    first: Spec
    layers: list[int]
    by_page: dict[int, list[int]]
    """Layers by page bytes, sizes in order of first use."""

    @property
    def repeats(self) -> int:
        """Layers of the most frequent page size: how often a balanced bucket repeats its pattern."""
        return max(map(len, self.by_page.values()))

    @property
    def balanced(self) -> bool:
        """Whether every page size has the same number of layers: one layer of each makes a repeating pattern."""
        return len(set(map(len, self.by_page.values()))) == 1

    def widest_group_bytes(self, groups: int) -> int:
        """Page bytes of the largest of ``groups`` groups that the bucket is split into."""
        return sum(cdiv(len(layers), groups) * page for page, layers in self.by_page.items())


def packed_groups(layers: LayerSet) -> list[Grouped] | None:
    """The groups of layers whose pages differ in size; None where all pages are equal and nothing is to be packed."""
    pages = [page_size(spec) for spec in layers.specs]
    if len(set(pages)) <= 1:
        return None
    buckets = buckets_of(layers, pages)
    repeats = repeats_per_group(buckets)
    anchor = max(b.widest_group_bytes(len(b.layers) if is_state(b, repeats) else splits(b, repeats)) for b in buckets)
    specs = layers.spec_by_layer()
    groups: list[Grouped] = []
    for bucket in buckets:
        count = splits(bucket, repeats)
        if is_state(bucket, repeats):
            states_per_block = max(anchor // bucket.first.page_size_bytes, 1)
            count = max(count, cdiv(len(bucket.layers), states_per_block))
        for members in split(bucket, count):
            own = tuple([specs[layer] for layer in members])
            if not one_type(own):
                raise CannotPlan(
                    "vLLM stops: a packed group would begin with a sliding-window MLA cache, whose type does not take "
                    "in the other windows; choose a layer-outermost layout (VLLM_KV_CACHE_LAYOUT=LBNHC)."
                )
            groups.append(Grouped(members, own[0], own))
    return groups


def buckets_of(layers: LayerSet, pages: Sequence[int]) -> list[Bucket]:
    """Layers in the first bucket whose type they have. ``pages``: page bytes of each distinct spec."""
    buckets: list[Bucket] = []
    by_type: dict[tuple[object, ...], list[Bucket]] = {}
    homes: list[Bucket] = []
    for spec in layers.specs:
        candidates = by_type.setdefault(type_key(spec), [])
        home = next((bucket for bucket in candidates if takes_in(bucket.first, spec)), None)
        if home is None:
            home = Bucket(spec, [], {})
            buckets.append(home)
            candidates.append(home)
        homes.append(home)
    for layer, spec_id in zip(layers.layers, layers.ids, strict=True):
        home = homes[spec_id]
        home.layers.append(layer)
        home.by_page.setdefault(pages[spec_id], []).append(layer)
    return buckets


def repeats_per_group(buckets: Sequence[Bucket]) -> int | None:
    """Pattern repeats of one group; None where no balanced bucket mixes page sizes."""
    balanced = [bucket for bucket in buckets if bucket.balanced]
    floor = max((bucket.repeats for bucket in balanced if len(bucket.by_page) > 1), default=0)
    return least_round_up([bucket.repeats for bucket in balanced], floor) if floor else None


def least_round_up(values: Sequence[int], floor: int) -> int:
    """The size in [floor, largest value] that pads ``values`` least when each is rounded up to a multiple of it.

    The largest of equally good sizes.
    """
    counted = Counter(values)
    best, best_padding = floor, -1
    for size in range(floor, max(values) + 1):
        padding = sum([-value % size * count for value, count in counted.items()])
        if best_padding < 0 or padding <= best_padding:
            best, best_padding = size, padding
    return best


def is_state(bucket: Bucket, repeats: int | None) -> bool:
    """Whether the bucket is split so that it never widens the block; a sliding window only without a pattern."""
    kind = bucket.first.kind
    return kind in (MAMBA, CIRCULAR_BUFFER) or (repeats is None and kind in WINDOW_KINDS)


def splits(bucket: Bucket, repeats: int | None) -> int:
    """Groups that the repeating pattern asks for."""
    return cdiv(bucket.repeats, repeats) if repeats is not None and bucket.balanced else 1


def split(bucket: Bucket, groups: int) -> list[list[int]]:
    """The bucket's layers in ``groups`` groups, whole repeats dealt round-robin.

    CannotPlan where page sizes do not repeat evenly: vLLM would lose layers or make empty groups.
    """
    if groups == 1:
        return [bucket.layers]
    if not bucket.balanced or groups > bucket.repeats:
        raise CannotPlan(
            f"{len(bucket.layers)} {bucket.first.kind} caches with {len(bucket.by_page)} page sizes cannot be dealt to "
            f"{groups} packed groups; choose a layer-outermost layout (VLLM_KV_CACHE_LAYOUT=LBNHC)."
        )
    patterns = list(zip(*bucket.by_page.values(), strict=True))
    return [[layer for pattern in patterns[i::groups] for layer in pattern] for i in range(groups)]
