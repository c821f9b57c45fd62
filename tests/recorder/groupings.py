"""The groupings that vLLM 0.33.0 would not choose by itself: other group sizes, and packed blocks."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MAIN, UNIFORM, PACKED = "main", "uniform", "packed"
GROUPINGS = (MAIN, UNIFORM, PACKED)

_PACKED_TWIN = {"LBHNC": "BLHNC", "LBNHC": "BLNHC", "LHBNC": "BLHNC"}
_COMPACT_TWIN = {"BLHNC": "LBHNC", "BLNHC": "LBNHC", "BHLNC": "LBHNC"}


def layout_of(grouping: str, resolved: str) -> str:
    """The layout that a grouping is planned under where the deployment's is ``resolved``: itself, or its twin.

    Packed blocks need blocks outermost, the other groupings layers outermost.
    """
    return (_PACKED_TWIN if grouping == PACKED else _COMPACT_TWIN).get(resolved, resolved)


def buckets(specs: dict[str, Any]) -> list[list[str]]:
    """Layers by spec, first come first served; a spec joins the first bucket whose specs merge with it."""
    by_spec: dict[Any, list[str]] = defaultdict(list)
    for name, spec in specs.items():
        by_spec[spec].append(name)
    found: list[tuple[list[Any], list[str]]] = []
    for spec, names in by_spec.items():
        home = next((bucket for bucket in found if _merge([*bucket[0], spec])), None)
        if home is None:
            found.append(([spec], list(names)))
        else:
            home[0].append(spec)
            home[1].extend(names)
    return [names for _, names in found]


def _merge(specs: Sequence[Any]) -> bool:
    try:
        type(specs[0]).merge(list(specs))
    except (AssertionError, ValueError):
        return False
    return True


def main_size(counts: Sequence[int]) -> int:
    """Layers in a group of 0.33.0: the smallest bucket, or the largest where that is less than half as large again."""
    return max(counts) if max(counts) < 1.5 * min(counts) else min(counts)


def uniform_size(counts: Sequence[int], bytes_of_one_layer: Sequence[int], minimum: int) -> int:
    """Layers in a group of pull request 58207: the size that pads the fewest bytes, then the one with fewest groups.

    ``bytes_of_one_layer`` is, per bucket, what one of its layers takes for a request of the longest length.
    """
    largest = max(counts)
    smallest = min(max(min(counts), minimum), largest)

    def cost(size: int) -> tuple[int, int]:
        padding = sum(each * (-count % size) for each, count in zip(bytes_of_one_layer, counts, strict=True))
        return padding, sum(-(-count // size) for count in counts)

    return min(range(smallest, largest + 1), key=cost)


def dealt(members: Sequence[Sequence[str]], size: int) -> list[list[str]]:
    """Buckets cut into groups of at most ``size`` layers, dealt in turn."""
    out = []
    for names in members:
        groups = -(-len(names) // size)
        out += [list(names[first::groups]) for first in range(groups)]
    return out


def _uniform(original: Callable[..., Any], config: Any, minimum: int) -> Callable[..., Any]:
    from vllm.v1.core.kv_cache_planning import create_kv_cache_group_specs

    def grouped(specs: dict[str, Any]) -> Any:
        members = buckets(specs)
        counts = [len(names) for names in members]
        made = [list(group.layer_names) for group in original(specs)]
        if made != dealt(members, main_size(counts)):
            raise RuntimeError("this vLLM no longer groups as 0.33.0 does; update tests/recorder/groupings.py")
        each = [max(specs[name].max_memory_usage_bytes(config) for name in names) for names in members]
        return create_kv_cache_group_specs(specs, dealt(members, uniform_size(counts, each, minimum)))

    return grouped


@contextlib.contextmanager
def use(grouping: str, config: Any, minimum: int) -> Iterator[None]:
    """Inside, the engine groups as ``grouping`` says. Packed needs nothing but its layout: see `layout_of`."""
    from vllm.v1.core import kv_cache_planning as planning

    original = planning._get_kv_cache_groups_uniform_page_size
    if grouping == UNIFORM:
        planning._get_kv_cache_groups_uniform_page_size = _uniform(original, config, minimum)
    try:
        yield
    finally:
        planning._get_kv_cache_groups_uniform_page_size = original
