"""Limits of a deployment: what was measured, what was allowed, and why it came out so.

Where the budget is estimated, a limit holds if it holds with the least memory that may be left for the KV cache. One
that holds only with more fails too, and says that it may hold: a check that passes by luck is no check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvplan.budget import Budget
from kvplan.check.case import Case, Planned
from kvplan.check.figures import Figures, blocks_at, measure, requests_at
from kvplan.check.fleet import Limit
from kvplan.planning.capacity import MORE_MEMORY
from kvplan.report.decision import error_words
from kvplan.report.numbers import concurrency, gib, number, plural
from kvplan.result import Result


class Failure(NamedTuple):
    """A limit or baseline that does not hold."""

    limit: str
    """Name of the limit; capacity_loss for the baseline."""
    measured: Any
    allowed: Any
    sentence: str
    line: int
    at_most: Any = None
    """Measured with the most memory of an estimated budget, where the limit may hold; None where it does not."""


class _Measured(NamedTuple):
    """A plan with its figures."""

    result: Result
    figures: Figures


def failures(case: Case, planned: Planned, figures: Figures, limits: Sequence[Limit]) -> list[Failure]:
    """The limits that do not hold for certain. A deployment that does not start fails unless must_start is false."""
    least = _Measured(planned.result, figures)
    most = None if planned.most is None else _Measured(planned.most, measure(planned.most))
    start = next((limit for limit in limits if limit.name == "must_start"), None)
    must_start = start is None or start.value
    out = []
    if not figures.starts and must_start:
        why = _no_room(planned.budget) or no_start_words(case, figures.error or "")
        out.append(_no_start(why, most, 0 if start is None else start.line, planned.budget))
    for limit in limits:
        if limit.name != "must_start" and (figures.starts or must_start):
            failed = _failed(limit, least, most, planned.budget)
            if failed and not (out and _same_cause(failed, least, most)):
                out.append(failed)
    return out


def _same_cause(failed: Failure, least: _Measured, most: _Measured | None) -> bool:
    """Whether there is nothing to measure as the deployment does not start, which is told already."""
    if least.figures.starts or failed.limit not in ("min_tokens", "min_concurrency"):
        return False
    return most is None or not most.figures.starts or failed.at_most is not None


def no_start_words(case: Case, error: str) -> str:
    """Why a deployment does not start, with advice on what gives its KV cache the memory."""
    if case.memory is not None:
        given = "kv_cache_memory"
    elif case.args.kv_cache_memory_bytes:
        given = "--kv-cache-memory-bytes"
    else:
        given = "--gpu-memory-utilization"
    return error_words(error.replace(MORE_MEMORY, given).replace(f"{given}, or", f"{given} or"))


def _no_start(why: str, most: _Measured | None, line: int, budget: Budget | None) -> Failure:
    if most is None or not most.figures.starts:
        return Failure("must_start", False, True, f"it does not start: {why}", line)
    return Failure("must_start", False, True, f"it may not start ({why.rstrip('.')}){_unsure(budget)}.", line, True)


def _no_room(budget: Budget | None) -> str | None:
    """Where the weights leave the KV cache nothing, whatever else a start-up takes."""
    if budget is None or min(budget.interval[-1]):
        return None
    weights = max(stage.total for stage in budget.weights)
    return (
        f"of the {gib(budget.requested_bytes)} that --gpu-memory-utilization {budget.gpu_memory_utilization:g} asks "
        f"for, {gib(weights)} of weights and what else a start-up takes leave no KV cache."
    )


def _failed(limit: Limit, least: _Measured, most: _Measured | None, budget: Budget | None) -> Failure | None:
    measured = _measured(limit, least)
    if _holds(limit, measured):
        return None
    widest = None if most is None else _measured(limit, most)
    if not _holds(limit, widest):
        same = most is None or widest == measured
        sentence = _sentence(limit, measured, least) if same else _at_most(limit, widest, most or least)
        return Failure(limit.name, measured, limit.value, f"{sentence}.", limit.line)
    sentence = (
        f"{_named(limit)} may not hold: {'none' if measured is None else _measured_words(limit, measured)} to "
        f"{_measured_words(limit, widest)}"
        f"{_unsure(budget)}"
    )
    return Failure(limit.name, measured, limit.value, f"{sentence}.", limit.line, widest)


def _holds(limit: Limit, measured: Any) -> bool:
    if limit.name == "layout":
        return bool(measured == limit.value)
    if measured is None:
        return False
    if limit.name.startswith("max_") or limit.name == "min_prefix_hit_tokens":
        return bool(measured <= limit.value)
    return bool(measured >= limit.value)


def _measured(limit: Limit, found: _Measured) -> Any:
    if limit.name == "min_concurrency":
        return found.figures.concurrency if limit.length is None else requests_at(found.result, limit.length)
    return getattr(found.figures, _FIGURES[limit.name])


_FIGURES = {
    "min_tokens": "tokens",
    "max_growing_padding_fraction": "growing_padding_fraction",
    "max_groups": "groups",
    "min_prefix_hit_tokens": "prefix_hit_tokens",
    "layout": "layout",
}


def _unsure(budget: Budget | None) -> str:
    """What an estimated budget rests on."""
    estimate = None if budget is None else budget.estimate
    if estimate is None:
        return ""
    return (
        f", as what a start-up takes besides weights and KV cache is estimated at {gib(estimate.least)} to "
        f"{gib(estimate.most)}; give non_kv_memory or kv_cache_memory to decide it"
    )


def _measured_words(limit: Limit, value: Any) -> str:
    """What was measured, as reports write it; with more digits where it would read as the limit itself."""
    if limit.name == "min_prefix_hit_tokens":
        return f"prompts of fewer than {number(value)} tokens cannot hit"
    if not isinstance(value, float):
        return number(value) if type(value) is int else str(value)
    if limit.name == "max_growing_padding_fraction":
        return f"{value * 100:.2f}%" if round(value, 4) > limit.value else f"{value * 100:.8g}%"
    return f"{concurrency(value)}x" if round(value, 2) < limit.value else f"{value:.8g}x"


def _named(limit: Limit) -> str:
    at = "" if limit.length is None else f" at {number(limit.length)} tokens"
    if limit.name == "max_growing_padding_fraction":
        return f"{limit.name} {limit.value * 100:.8g}%"
    return f"{limit.name} {number(limit.value) if type(limit.value) is int else limit.value}{at}"


def _sentence(limit: Limit, measured: Any, found: _Measured) -> str:
    if measured is None:
        return f"{_named(limit)} does not hold: {_missing(limit, found)}"
    return f"{_named(limit)} does not hold: {_measured_words(limit, measured)}{_why(limit, found)}"


def _at_most(limit: Limit, widest: Any, most: _Measured) -> str:
    """The sentence of what does not hold with the most memory of an estimate either."""
    if widest is None:
        return _sentence(limit, widest, most)
    return f"{_named(limit)} does not hold: at most {_measured_words(limit, widest)}, estimated{_why(limit, most)}"


def _missing(limit: Limit, found: _Measured) -> str:
    """Why there is nothing to measure."""
    if limit.name == "min_prefix_hit_tokens":
        caching = found.result.config.enable_prefix_caching
        return "kvplan does not know how these groups are looked up" if caching else "prefix caching is off"
    return "there is no pool to measure" if found.figures.starts else "it does not start"


def _why(limit: Limit, found: _Measured) -> str:
    """What the measured value rests on, to follow it."""
    result, figures = found
    if limit.name in ("min_tokens", "min_concurrency"):
        length = limit.length or figures.max_model_len or 0
        return (
            f" ({plural(figures.num_blocks or 0, 'block')} of {number(figures.bytes_per_block or 0)} bytes, "
            f"{number(blocks_at(result, length))} for a request of {number(length)} tokens)"
        )
    if limit.name == "min_prefix_hit_tokens":
        return f" (attention blocks of {number(figures.block_size)} tokens)"
    return f" ({figures.grouping} grouping, {plural(figures.groups, 'group')}, layout {figures.layout})"
