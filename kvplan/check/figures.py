"""What a check measures of a plan: the numbers that a lock records and limits are held against."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.prefix_hits import shortest_hit
from kvplan.report.capacity import blocks_of
from kvplan.result import Result


class Figures(NamedTuple):
    """One planned deployment in numbers: tokens, blocks, bytes; None where there is no budget or no cache."""

    starts: bool
    tokens: int | None
    concurrency: float | None
    max_model_len: int | None
    num_blocks: int | None
    blocks_per_request: int | None
    bytes_per_block: int | None
    groups: int
    grouping: str
    layout: str
    block_size: int
    growing_padding_fraction: float
    prefix_hit_tokens: int | None
    """Tokens of the shortest prompt that can hit the prefix cache; None: prefix caching is off, or it is not known."""
    tokens_at_most: int | None = None
    """Where the budget is estimated: tokens with the most that may be left for the cache, ``tokens`` being those with
    the least; else None."""
    error: str | None = None

    def recorded(self) -> dict[str, Any]:
        """What a lock keeps: everything but a sentence."""
        return {key: value for key, value in self._asdict().items() if key != "error"}


def measure(result: Result, most: Result | None = None) -> Figures:
    """The figures of the plan that the engine uses; ``most``: the plan with the most memory of an estimate."""
    plan = result.plans[result.selected]
    fits = plan.error is None
    widest = None if most is None else most.plans[most.selected]
    return Figures(
        starts=fits,
        tokens=plan.kv_cache_size_tokens if fits else None,
        concurrency=plan.max_concurrency if fits else None,
        max_model_len=plan.max_model_len,
        num_blocks=plan.num_blocks if fits else None,
        blocks_per_request=plan.blocks_per_request,
        bytes_per_block=plan.bytes_per_block,
        groups=len(plan.groups),
        grouping=result.selected,
        layout=plan.layout,
        block_size=result.block_size,
        growing_padding_fraction=0.0 if plan.padding is None else float(plan.padding.growing_fraction),
        prefix_hit_tokens=shortest_hit(plan, result.config),
        tokens_at_most=None if widest is None or widest.error is not None else widest.kv_cache_size_tokens,
        error=plan.error,
    )


def blocks_at(result: Result, length: int) -> int:
    """Blocks that one request of ``length`` tokens holds."""
    return blocks_of(result.plans[result.selected], result.config, length)


def requests_at(result: Result, length: int) -> float | None:
    """Requests of ``length`` tokens that the pool holds at once; None without a budget."""
    plan = result.plans[result.selected]
    if plan.error is not None or plan.num_blocks is None:
        return None
    blocks = blocks_at(result, length)
    return plan.num_blocks / blocks if blocks else None
