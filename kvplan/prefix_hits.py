"""The shortest prompt that can hit the prefix cache, by the lookup of vLLM's coordinators with every block cached.

A prompt's last token is always computed, groups of a drafter give one block up, windows need their blocks side by side,
and several groups must agree on a length (vllm/v1/core/kv_cache_coordinator.py, single_type_kv_cache_manager.py,
resolve_kv_cache_block_sizes of kv_cache_utils.py).
"""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.result import Group, Plan
from kvplan.spec import (
    CIRCULAR_BUFFER,
    FULL_ATTENTION,
    MLA,
    SINK_FULL_ATTENTION,
    WINDOW_KINDS,
    AttentionSpec,
    Spec,
    StateSpec,
    cdiv,
)

_FULL = (FULL_ATTENTION, MLA, SINK_FULL_ATTENTION)
_MOST_CANDIDATES = 50_000


class Cached(NamedTuple):
    """Groups with the same spec, which are looked up together. Sizes are tokens."""

    block_size: int
    """Of all ranks together."""
    window: int | None = None
    is_state: bool = False
    drops: bool = False
    """Whether its last block is given up for the drafter."""

    @property
    def is_full(self) -> bool:
        return self.window is None and not self.is_state


class Lookup(NamedTuple):
    """A prefix cache's groups and units. ``alone``: one group, which vLLM looks up without the rules for several."""

    groups: tuple[Cached, ...]
    hash_unit: int
    alignment: int
    alone: bool

    def shortest(self) -> int | None:
        """Tokens of the shortest prompt that can hit; None where none of a reasonable length does."""
        longest = max(group.block_size for group in self.groups)
        units = (4 * self.alignment + 4 * longest) // self.hash_unit
        if units > _MOST_CANDIDATES:
            return None
        for unit in range(1, units + 1):
            for length in (unit * self.hash_unit, unit * self.hash_unit + 1):
                if self.hit(length):
                    return length
        return None

    def hit(self, length: int) -> int:
        """Tokens that a prompt of ``length`` tokens finds (`find_longest_cache_hit`)."""
        if self.alone:
            return self._found(self.groups[0], length - 1, drops=self.groups[0].drops)
        hashed = length // self.hash_unit * self.hash_unit
        agreed = length - 1
        dropped: set[int] = set()
        full: dict[int, int] = {}
        while True:
            current = agreed
            for i, group in enumerate(self.groups):
                if group.is_full and i in full:
                    current = min(current, full[i])
                    continue
                drops = group.drops and i not in dropped
                margin = group.block_size if drops and not group.is_state else 0
                found = self._found(group, min(current + margin, hashed) if margin else current, drops=drops)
                if drops:
                    dropped.add(i)
                elif found < current:
                    dropped.clear()
                current = full[i] = found
            if current >= agreed or (len(self.groups) == 2 and self.groups[0].is_full):
                return min(current, agreed)
            agreed = current

    def _found(self, group: Cached, most: int, *, drops: bool) -> int:
        """What one group finds within ``most`` tokens where all its blocks are cached."""
        size, count = group.block_size, max(0, most) // group.block_size
        if group.is_state:
            return count * size // self.alignment * self.alignment
        if group.is_full:
            found = count * size - (min(self.alignment, size) if drops and count else 0)
            return found // self.alignment * self.alignment
        return self._window(count, cdiv((group.window or 1) - 1, size) + drops, size, drops=drops)

    def _window(self, count: int, needed: int, size: int, *, drops: bool) -> int:
        """A window's run of blocks, sought from the right; one that reaches the start counts where it is too short."""
        while count and (count - drops) * size % self.alignment and size != self.alignment:
            count -= 1
        if count < needed:
            count = self._aligned(count, size)
        return size * self._aligned(count - 1 if drops and count else count, size)

    def _aligned(self, blocks: int, size: int) -> int:
        while blocks * size % self.alignment:
            blocks -= 1
        return blocks


def shortest_hit(plan: Plan, config: EngineConfig) -> int | None:
    """Tokens of the shortest prompt that can hit; None without prefix caching, or where kvplan does not know."""
    found = lookup(plan, config)
    return None if found is None else found.shortest()


def lookup(plan: Plan, config: EngineConfig) -> Lookup | None:
    """How vLLM looks prefixes up; None without prefix caching, or where a group has a lookup that is not known here."""
    if not config.enable_prefix_caching or not plan.groups:
        return None
    dcp = config.decode_context_parallel_size
    sizes = [_effective(group.spec, dcp) for group in plan.groups]
    drops = config.speculative is not None and config.speculative.use_eagle_block_drop
    flagged = any(group.is_eagle_group for group in plan.groups)
    cached: dict[Spec, Cached] = {}
    for group, size in zip(plan.groups, sizes, strict=True):
        if not _is_cacheable(group.spec):
            continue
        own = _cached(group, size, drops=drops and (group.is_eagle_group or not flagged))
        if own is None:
            return None
        before = cached.get(group.spec)
        cached[group.spec] = own if before is None else own._replace(drops=own.drops or before.drops)
    if not cached:
        return None
    if len(sizes) == 1:
        return Lookup(tuple(cached.values()), sizes[0], sizes[0], alone=True)
    alignment = lcm(*sizes)
    states = [group.spec for group in plan.groups if isinstance(group.spec, StateSpec)]
    unit = gcd(*(group.block_size for group in cached.values()))
    if any(spec.mamba_cache_mode != "align" for spec in states):
        unit = alignment
    elif any(spec.block_size > unit or dcp > 1 for spec in states):
        return None
    groups = sorted(cached.values(), key=lambda group: not group.is_full)
    return Lookup(tuple(groups), unit, alignment, alone=False)


def _effective(spec: Spec, dcp: int) -> int:
    return spec.block_size * (dcp if spec.dcp_sharded else 1)


def _is_cacheable(spec: Spec) -> bool:
    return spec.kind != CIRCULAR_BUFFER and not (isinstance(spec, AttentionSpec) and spec.bounded_replay)


def _cached(group: Group, size: int, *, drops: bool) -> Cached | None:
    spec = group.spec
    if isinstance(spec, StateSpec):
        return Cached(size, is_state=True, drops=drops)
    if spec.kind in WINDOW_KINDS:
        return Cached(size, window=spec.sliding_window, drops=drops)
    return Cached(size, drops=drops) if spec.kind in _FULL else None
