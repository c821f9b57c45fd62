"""What a drafter costs: plans side by side, and the bytes of one request that make the difference.

The causes of a change are the differences between two plans' request bytes by category
(`kvplan.result.CATEGORIES`). Every byte of a request is in exactly one category, so the differences add up to the
change of the bytes that one request of max_model_len takes, and with one pool that is what the tokens follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvplan.errors import KvplanError
from kvplan.result import CATEGORIES, DrafterInfo, Plan, Result
from kvplan.spec import CacheLayer

GROUPINGS = ("main", "uniform", "packed")


class Deployment(NamedTuple):
    """One planned deployment as a comparison sees it: of a `Result`, or of a saved document."""

    engine: str
    model: str
    drafter: DrafterInfo | None
    options: Mapping[str, Any]
    """Resolved engine options under vLLM's names."""
    layers: Mapping[str, CacheLayer]
    """By name, in the engine's order."""
    layout: str
    selected: str
    plans: Mapping[str, Plan]
    assumed: tuple[str, ...] = ()
    """What kvplan assumed because nothing was given."""
    name: str = ""
    """What to call it where model and drafter do not tell the sides apart: the name of a saved document."""

    @property
    def plan(self) -> Plan:
        """The plan that the engine uses."""
        return self.plans[self.selected]


class Cause(NamedTuple):
    """One category of a request's bytes in two plans."""

    category: str
    before: int
    after: int

    @property
    def difference(self) -> int:
        return self.after - self.before


class Row(NamedTuple):
    """One grouping of one deployment. Changes are fractions: -0.31 is 31 % fewer tokens."""

    grouping: str
    used: bool
    """Whether it is the grouping that the engine really uses."""
    plan: Plan
    bytes_per_request: int | None
    """Bytes of the blocks that one request of max_model_len holds."""
    change: float | None
    """Of the tokens, against the same grouping of the baseline."""


class Entry(NamedTuple):
    """One deployment of a comparison with its three groupings."""

    deployment: Deployment
    rows: tuple[Row, ...]
    change: float | None
    """Of the tokens, between the groupings that the engine uses without and with the change."""
    causes: tuple[Cause, ...]
    """Between those two plans, the largest first; categories that did not change are left out."""
    causes_by_grouping: Mapping[str, tuple[Cause, ...]]

    @property
    def used(self) -> Row:
        return next(row for row in self.rows if row.used)


class Comparison(NamedTuple):
    """A baseline and the deployments that were compared with it."""

    baseline: Entry
    variants: tuple[Entry, ...]


def deployment_of(result: Result) -> Deployment:
    """What a comparison needs of a result."""
    return Deployment(
        engine=result.engine,
        model=result.model.id,
        drafter=result.drafter,
        options=result.options(),
        layers={layer.name: layer for layer in result.layers},
        layout=result.layout.name,
        selected=result.selected,
        plans=result.plans,
        assumed=result.assumed,
    )


def compare(baseline: Result, variants: Sequence[Result]) -> Comparison:
    """The baseline (no drafter) against each variant (one drafter with one number of speculative tokens).

    KvplanError for what is no Result.
    """
    results = [baseline, *variants] if isinstance(variants, list | tuple) else [variants]
    for result in results:
        if not isinstance(result, Result):
            raise KvplanError(
                f"compare takes a Result and a list of Results, not {type(result).__name__}; plan(request) gives one."
            )
    return compare_deployments(deployment_of(baseline), [deployment_of(result) for result in variants])


def compare_deployments(baseline: Deployment, variants: Sequence[Deployment]) -> Comparison:
    """Every variant against the baseline: its rows, its change and the causes of it."""
    return Comparison(_entry(baseline, baseline), tuple(_entry(baseline, side) for side in variants))


def _entry(baseline: Deployment, side: Deployment) -> Entry:
    rows = tuple(
        Row(name, name == side.selected, plan, bytes_per_request(plan), change(baseline.plans.get(name), plan))
        for name, plan in side.plans.items()
    )
    by_grouping = {
        name: causes(baseline.plans[name], plan) for name, plan in side.plans.items() if name in baseline.plans
    }
    return Entry(side, rows, change(baseline.plan, side.plan), causes(baseline.plan, side.plan), by_grouping)


def bytes_per_request(plan: Plan) -> int | None:
    """Bytes of the blocks that one request of max_model_len holds; None where the plan has no blocks."""
    if plan.bytes_per_block is None or plan.blocks_per_request is None:
        return None
    return plan.bytes_per_block * plan.blocks_per_request


def change(before: Plan | None, after: Plan) -> float | None:
    """The change of tokens as a fraction; without a budget, of the tokens that the same bytes would hold.

    None where one of the plans has an error or no size, or only one of them a budget.
    """
    if before is None or before.error or after.error:
        return None
    if (before.kv_cache_size_tokens is None) != (after.kv_cache_size_tokens is None):
        return None
    if before.kv_cache_size_tokens and after.kv_cache_size_tokens is not None:
        return after.kv_cache_size_tokens / before.kv_cache_size_tokens - 1
    held, holds = _tokens_per_byte(before), _tokens_per_byte(after)
    return None if held is None or holds is None else holds / held - 1


def _tokens_per_byte(plan: Plan) -> float | None:
    size = bytes_per_request(plan)
    return plan.max_model_len / size if size and plan.max_model_len else None


def causes(before: Plan, after: Plan) -> tuple[Cause, ...]:
    """The categories whose bytes differ, the largest difference first. Empty where a plan has no request cost."""
    if before.request_cost is None or after.request_cost is None:
        return ()
    old, new = before.request_cost.at_max_model_len, after.request_cost.at_max_model_len
    keys = dict.fromkeys([*CATEGORIES, *old, *new])
    found = [Cause(key, old.get(key, 0), new.get(key, 0)) for key in keys]
    return tuple(sorted((c for c in found if c.difference), key=lambda c: -abs(c.difference)))


def unchanged(before: Plan, after: Plan) -> tuple[Cause, ...]:
    """The categories whose bytes are the same and not zero."""
    if before.request_cost is None or after.request_cost is None:
        return ()
    old, new = before.request_cost.at_max_model_len, after.request_cost.at_max_model_len
    return tuple(Cause(key, old[key], new[key]) for key in old if old[key] and old[key] == new.get(key))


def changed_options(before: Deployment, after: Deployment) -> dict[str, tuple[Any, Any]]:
    """The engine options that differ, each with both values; None for one that a side does not have."""
    keys = dict.fromkeys([*before.options, *after.options])
    pairs = {key: (before.options.get(key), after.options.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
