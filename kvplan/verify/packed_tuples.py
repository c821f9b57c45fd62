"""Groups of a model with sliding-window MLA (DeepSeek-V4) before 0.29.0: layers dealt by tuples of page sizes.

From `group_and_unify_kv_cache_specs` and `_get_kv_cache_groups_uniform_groups` of vllm/v1/core/kv_cache_utils.py: one
group of all whole-context latents; window layers padded up to its page sizes and cut so that each group has about as
many tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvplan.planning.layer_set import CannotPlan, Grouped, LayerSet
from kvplan.planning.unify import page_size
from kvplan.spec import MLA_KINDS, SLIDING_WINDOW_MLA, AttentionSpec, Spec


def tuple_groups(layers: LayerSet, *, whole_tuples: bool) -> tuple[list[Grouped], int]:
    """The groups, whole-context latents first, and the bytes of one block. CannotPlan where the release stops.

    ``whole_tuples``: a block has room for a page of every size in each tuple (before 0.24.0).
    """
    whole = layers.where(lambda spec: spec.kind in MLA_KINDS)
    windows = layers.where(lambda spec: spec.kind == SLIDING_WINDOW_MLA)
    if not whole.layers or len(whole.layers) + len(windows.layers) != len(layers.layers):
        raise CannotPlan("sliding-window MLA is grouped only beside MLA of the whole context")
    pages = sorted({page_size(spec) for spec in whole.specs})
    parts = [_padded(part, pages) for part in _by_window(windows)]
    tuples = [_tuples(whole), *(_tuples(part) for part in parts)]
    size = least_padding(tuples, tuples[0])
    groups = [_uniform(whole)]
    for part in parts:
        groups += _dealt(part, size)
    slots = _slots(groups)
    if whole_tuples:
        return groups, sum(pages) * max(slots.values())
    return groups, sum(size * count for size, count in slots.items())


def least_padding(counts: Sequence[int], lower: int) -> int:
    """The number of tuples, from ``lower`` on, that rounds all counts up with the least padding; the largest such."""
    best, best_padding = lower, None
    for size in range(max(1, lower), max(counts) + 1):
        padding = sum(-count % size for count in counts)
        if best_padding is None or padding <= best_padding:
            best, best_padding = size, padding
    return best


def _by_window(windows: LayerSet) -> list[LayerSet]:
    keys = list(dict.fromkeys(_window_key(spec) for spec in windows.specs))
    return [windows.where(lambda spec, key=key: _window_key(spec) == key) for key in keys]  # type: ignore[misc]


def _window_key(spec: Spec) -> tuple[int, int | None]:
    return spec.block_size, spec.sliding_window if isinstance(spec, AttentionSpec) else None


def _padded(part: LayerSet, pages: Sequence[int]) -> LayerSet:
    """Each page padded up to the next page size of the whole-context group."""

    def padded(spec: Spec) -> Spec:
        page = page_size(spec)
        target = next((size for size in pages if size >= page), None)
        if target is None:
            raise CannotPlan(f"a window page of {page:,} bytes is larger than every whole-context page")
        return spec if target == page or not isinstance(spec, AttentionSpec) else _to_page(spec, target)

    return part.mapped(padded)


def _to_page(spec: AttentionSpec, target: int) -> AttentionSpec:
    """The spec padded to ``target`` bytes; its rows' own alignment is part of that."""
    return spec._replace(page_size_padded=target, alignment=None)


def _tuples(part: LayerSet) -> int:
    """Layer tuples: how often the commonest page size occurs."""
    by_layer = part.spec_by_layer()
    return Counter(page_size(spec) for spec in by_layer.values()).most_common(1)[0][1]


def _uniform(part: LayerSet) -> Grouped:
    specs = tuple(part.specs[i] for i in part.ids)
    return Grouped(part.layers, specs[0], specs)


def _dealt(part: LayerSet, size: int) -> list[Grouped]:
    by_layer = part.spec_by_layer()
    rows: dict[int, list[int]] = {}
    for layer, spec in by_layer.items():
        rows.setdefault(page_size(spec), []).append(layer)
    lengths = {len(row) for row in rows.values()}
    if len(lengths) != 1:
        raise CannotPlan("window layers of one group occur a different number of times by page size")
    number = -(-lengths.pop() // size)
    groups = []
    for i in range(number):
        members = [layer for each in list(zip(*rows.values(), strict=True))[i::number] for layer in each]
        specs = tuple(by_layer[layer] for layer in members)
        groups.append(Grouped(members, specs[0], specs))
    return groups


def _slots(groups: Sequence[Grouped]) -> dict[int, int]:
    """For each page size, the most layers of that size that any group has."""
    slots: dict[int, int] = {}
    for group in groups:
        for size, count in Counter(page_size(spec) for spec in group.layer_specs or ()).items():
            slots[size] = max(slots.get(size, 0), count)
    return slots
