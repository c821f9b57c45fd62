"""Which pipeline stage runs which layer (vllm/distributed/utils.py, get_pp_indices)."""

from __future__ import annotations

from collections.abc import Sequence


def layer_index(name: str) -> int | None:
    """The layer's number in its name: the first part that is a number (``model.layers.3.self_attn`` is 3)."""
    return next((int(part) for part in name.split(".") if part.isdecimal()), None)


def stage_of(index: int, counts: Sequence[int]) -> int:
    """The stage that runs layer ``index``."""
    for stage, count in enumerate(counts):
        if index < count:
            return stage
        index -= count
    return len(counts) - 1
