"""Limits of a deployment: what was measured, what was allowed, and why it came out so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvplan.check.figures import Figures, blocks_at, requests_at
from kvplan.check.fleet import Limit
from kvplan.report.decision import error_words
from kvplan.report.numbers import number, plural
from kvplan.result import Result


class Failure(NamedTuple):
    """A limit or baseline that does not hold."""

    limit: str
    """Name of the limit; capacity_loss for the baseline."""
    measured: Any
    allowed: Any
    sentence: str
    line: int


def failures(result: Result, figures: Figures, limits: Sequence[Limit]) -> list[Failure]:
    """The limits that do not hold. A deployment that does not start fails unless must_start is false."""
    given = {limit.name: limit for limit in limits}
    out = []
    start = given.get("must_start")
    if not figures.starts and (start is None or start.value):
        why = f"it does not start: {error_words(figures.error or '')}"
        out.append(Failure("must_start", False, True, why, 0 if start is None else start.line))
    for limit in limits:
        if limit.name != "must_start" and (figures.starts or start is None or start.value):
            failed = _failed(limit, result, figures)
            out += [failed] if failed else []
    return out


def _failed(limit: Limit, result: Result, figures: Figures) -> Failure | None:
    measured = _measured(limit, result, figures)
    if limit.name == "layout":
        holds = measured == limit.value
    elif measured is None:
        holds = False
    elif limit.name.startswith("max_") or limit.name == "min_prefix_hit_tokens":
        holds = measured <= limit.value
    else:
        holds = measured >= limit.value
    if holds:
        return None
    return Failure(limit.name, measured, limit.value, _sentence(limit, measured, result, figures), limit.line)


def _measured(limit: Limit, result: Result, figures: Figures) -> Any:
    if limit.name == "min_concurrency":
        return figures.concurrency if limit.length is None else requests_at(result, limit.length)
    return getattr(figures, _FIGURES[limit.name])


_FIGURES = {
    "min_tokens": "tokens",
    "max_growing_padding_fraction": "growing_padding_fraction",
    "max_groups": "groups",
    "min_prefix_hit_tokens": "prefix_hit_tokens",
    "layout": "layout",
}


def _sentence(limit: Limit, measured: Any, result: Result, figures: Figures) -> str:
    if measured is None:
        missing = {"min_prefix_hit_tokens": "prefix caching is off"}.get(
            limit.name, "there is no pool to measure" if figures.starts else "it does not start"
        )
        return f"{limit.name} {limit.value}: {missing}."
    shown = (
        f"{measured:,.4g}" if isinstance(measured, float) else number(measured) if type(measured) is int else measured
    )
    allowed = number(limit.value) if type(limit.value) is int else limit.value
    at = "" if limit.length is None else f" at {number(limit.length)} tokens"
    return f"{limit.name} {allowed}{at} does not hold: {shown} ({_why(limit, result, figures)})."


def _why(limit: Limit, result: Result, figures: Figures) -> str:
    """What the measured value rests on."""
    if limit.name in ("min_tokens", "min_concurrency"):
        length = limit.length or figures.max_model_len or 0
        return (
            f"{plural(figures.num_blocks or 0, 'block')} of {number(figures.bytes_per_block or 0)} bytes, "
            f"{number(blocks_at(result, length))} for a request of {number(length)} tokens"
        )
    if limit.name == "min_prefix_hit_tokens":
        return f"attention blocks of {number(figures.block_size)} tokens"
    return f"{figures.grouping} grouping, {plural(figures.groups, 'group')}, layout {figures.layout}"
