"""What a log says that no plan is held against: each such line, and why."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.logs.reading import LogReading
from kvplan.verify.lines import CAPACITY, Line, Memory, Value
from kvplan.verify.pool import ReleasePlan

FOLLOW_FROM_A_REQUEST = frozenset(("needed_gib", "estimated_max_model_len", *CAPACITY))
"""Lines that depend on the blocks of one request; the others are settled before."""
_MAY_STAY_OPEN = frozenset(("layout", "num_gpu_blocks"))
"""Where no plan has them: what a pool holds is judged without."""


def found(reading: LogReading) -> dict[str, Value]:
    """Every number of the log that a plan has too, in the order in which a start-up comes to them."""
    refusal = reading.refusal
    every: dict[str, Value] = {
        "attention_block_size": reading.attention_block_size,
        "mamba_padding_pct": reading.mamba_padding_pct,
        "padding_layers": list(dict.fromkeys(layers for layers, _ in reading.padding)) or None,
        "layout": reading.layout,
        "needed_gib": None if refusal is None else refusal.needed_gib,
        "estimated_max_model_len": None if refusal is None else refusal.estimated_max_model_len,
        "num_gpu_blocks": reading.num_gpu_blocks,
        "kv_cache_size_tokens": reading.kv_cache_size_tokens,
        "max_concurrency": reading.max_concurrency,
    }
    return {what: value for what, value in every.items() if value is not None}


def all_unjudged(reading: LogReading, reason: str) -> tuple[Line, ...]:
    """Every line of a log that cannot be planned."""
    return tuple(Line(what, value, None, None, reason) for what, value in found(reading).items())


def completed(reading: LogReading, lines: Sequence[Line], plan: ReleasePlan, memory: Memory) -> tuple[Line, ...]:
    """The judged lines with those that the log has too and that were not compared."""
    judged = {line.what: line for line in lines}
    return tuple(
        judged.get(what) or Line(what, value, None, None, _reason(what, reading, plan, memory))
        for what, value in found(reading).items()
    )


def _reason(what: str, reading: LogReading, plan: ReleasePlan, memory: Memory) -> str:
    """Why a line of a planned log was not compared."""
    if what == "layout":
        return f"Layouts are planned from vLLM 0.29.0 on, and the rules are those of {plan.rules.release}."
    if what == "num_gpu_blocks" and memory.has_blocks and not memory.blocks_are_the_log_s:
        return f"The log's {reading.num_gpu_blocks:,} blocks are those of several engines together."
    if what == "num_gpu_blocks" and memory.blocks_are_the_log_s:
        return "The log does not hold the KV memory that its blocks follow from; they are taken as they are."
    if what == "estimated_max_model_len" and memory.stages is not None:
        return "The log does not hold the KV memory of every pipeline stage."
    return "The log does not hold the KV memory that they follow from."


def withheld(
    lines: Sequence[Line], reason: str, whats: frozenset[str] | None, judged: Sequence[bool]
) -> tuple[Line, ...]:
    """The lines with those of ``whats`` (None: any) that were ``judged`` so not judged, for ``reason``."""
    return tuple(
        line._replace(agrees=None, reason=reason)
        if (whats is None or line.what in whats) and line.agrees in judged
        else line
        for line in lines
    )


def by_reason(lines: Sequence[Line]) -> dict[str, list[str]]:
    """The lines that are not judged, by their reason."""
    told: dict[str, list[str]] = {}
    for line in lines:
        if line.agrees is None and line.reason is not None:
            told.setdefault(line.reason, []).append(line.what)
    return told


def refusal(lines: Sequence[Line]) -> str | None:
    """Why lines of which none differs do not make a log that agrees; None where they do, or where one differs.

    They do not where nothing was judged, nor where anything but _MAY_STAY_OPEN was found and not judged.
    """
    if not lines:
        return "The log holds no number that the plan could be compared with."
    if any(line.agrees is False for line in lines):
        return None
    open_ones = [line for line in lines if line.agrees is None]
    decisive = [line for line in open_ones if line.plan is not None or line.what not in _MAY_STAY_OPEN]
    if len(open_ones) == len(lines):
        decisive = decisive or open_ones
    return decisive[0].reason if decisive else None
