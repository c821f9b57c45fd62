"""What a KV connector moves: the runs of contiguous bytes in which a plan's layout keeps a block.

Follows from the axis order alone: one run for each step along the axes outside the block axis, where the layers of a
block that are neighbours make one run (vllm/v1/kv_cache_interface.py, `compute_layout_strides`). A connector may
describe its transfers in larger or smaller pieces; it cannot find fewer runs than these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.layout import is_block_compact, is_block_outermost
from kvplan.result import Group, Plan
from kvplan.spec import Spec


class Run(NamedTuple):
    """Equal runs of a group's block."""

    group: int
    """Index of the KV cache group."""
    regions: int
    """Runs per block."""
    bytes: int
    """Bytes of each."""
    blocks_per_request: int
    """Blocks of the group that one request holds at the plan's max_model_len."""


class Transfer(NamedTuple):
    """What one rank moves of a plan's cache."""

    layout: str
    runs: tuple[Run, ...]

    @property
    def regions_per_request(self) -> int:
        return sum(run.regions * run.blocks_per_request for run in self.runs)

    @property
    def bytes_per_request(self) -> int:
        return sum(run.regions * run.bytes * run.blocks_per_request for run in self.runs)

    def regions_per_block(self, group: int) -> int:
        return sum(run.regions for run in self.runs if run.group == group)

    def bytes_per_block(self, group: int) -> int:
        return sum(run.regions * run.bytes for run in self.runs if run.group == group)


def transfer(plan: Plan, blocks: Sequence[int] | None = None) -> Transfer:
    """The runs of every group's block, padding after the last layer of a group left out.

    ``blocks``: blocks per group of a request of another length; None: of one of the plan's max_model_len. Pages count
    as the pool holds them, with the rounding inside.
    """
    counts = [group.blocks_per_request for group in plan.groups] if blocks is None else list(blocks)
    runs = [run for i, group in enumerate(plan.groups) for run in _runs(i, group, plan.layout, counts[i])]
    return Transfer(plan.layout, tuple(runs))


def _runs(index: int, group: Group, layout: str, blocks: int) -> list[Run]:
    if is_block_outermost(layout):
        return [Run(index, 1, sum(spec.page_size_bytes for spec in group.layer_specs), blocks)]
    counted: dict[tuple[int, int], int] = {}
    for spec in group.layer_specs:
        pieces = 1 if is_block_compact(layout) else _heads(spec)
        key = (spec.page_size_bytes // pieces, pieces)
        counted[key] = counted.get(key, 0) + pieces
    return [Run(index, count, size, blocks) for (size, _), count in counted.items()]


def _heads(spec: Spec) -> int:
    return spec.num_heads
