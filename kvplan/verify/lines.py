"""What of a start-up agrees with its release's plan, line by line, and the first cause where something does not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.logs.capacity import Printed, bytes_printed_as
from kvplan.logs.reading import LogReading
from kvplan.units import GIB
from kvplan.verify.pool import ReleasePlan, longest_model_len, needed_bytes, outcomes, possible_blocks

MAXIMUM_OUTCOMES = 200_000
CAPACITY = ("num_gpu_blocks", "kv_cache_size_tokens", "max_concurrency")
"""What a start-up says of its pool."""

Value = int | float | str | None | list[int]


class Line(NamedTuple):
    """One thing that the log says, beside what the plan says."""

    what: str
    log: Value
    plan: Value
    agrees: bool | None
    """None: not judged."""
    reason: str | None = None
    """Why it is not judged."""


class Memory(NamedTuple):
    """The KV memory that a log allows."""

    stages: tuple[range | None, ...] | None
    """The possible bytes on each pipeline stage, None for a stage that the log does not show; None without any."""
    blocks: int | None = None
    """The number of blocks where it is given: --num-gpu-blocks-override, or the log's own without any memory."""
    ranks: tuple[int, int] = (1, 1)
    """Ranks whose memory the log shows, of how many. Where some are missing the pool may be smaller."""
    blocks_are_the_log_s: bool = False
    """``blocks`` is what the log says, which therefore proves nothing of itself."""

    @property
    def has_blocks(self) -> bool:
        return self.blocks is not None or self.stages is not None

    @property
    def is_bound(self) -> bool:
        """Whether the memory only bounds the pool from above: a rank that is not shown may have less."""
        return self.stages is not None and self.ranks[0] < self.ranks[1]


class Found(NamedTuple):
    """The number of blocks that explains the log best, and what it prints."""

    num_blocks: int
    printed: Printed
    below: bool = False
    """Fewer blocks than the memory that the log shows gives: a rank that it does not show must have less."""


def compared(reading: LogReading, plan: ReleasePlan, memory: Memory) -> tuple[list[Line], Found | None]:
    """The lines that the log and the plan both have, in the order in which a start-up comes to them."""
    lines = _block_lines(reading, plan)
    length = reading.max_model_len
    blocks = _possible(plan, memory)
    if length is None:
        return lines, None
    lines += _refusal_lines(reading, plan, memory, length)
    if not blocks or not _has_capacity(reading):
        return lines, None
    found = _best(reading, plan, blocks, length)
    if memory.is_bound and _misses(reading, found.num_blocks, found.printed):
        found = _smaller(reading, plan, blocks.start, length) or found
    if memory.blocks_are_the_log_s:
        reading = reading._replace(num_gpu_blocks=None)
    return lines + _capacity_lines(reading, found), found


def _smaller(reading: LogReading, plan: ReleasePlan, below: int, length: int) -> Found | None:
    """A pool of fewer blocks that gives all of the log's numbers; None where there is none."""
    numbers = range(below)
    tokens = reading.kv_cache_size_tokens
    if tokens is not None:
        numbers = numbers[bisect_left(numbers, tokens, key=lambda n: plan.printed(n, length).kv_cache_size_tokens) :]
    for number, printed in outcomes(plan, numbers, length, MAXIMUM_OUTCOMES):
        if not _misses(reading, number, printed):
            return Found(number, printed, below=True)
        if tokens is not None and printed.kv_cache_size_tokens > tokens:
            return None
    return None


def _has_capacity(reading: LogReading) -> bool:
    return any(
        value is not None for value in (reading.num_gpu_blocks, reading.kv_cache_size_tokens, reading.max_concurrency)
    )


def _possible(plan: ReleasePlan, memory: Memory) -> range:
    if memory.blocks is not None:
        return range(memory.blocks, memory.blocks + 1)
    return range(0) if memory.stages is None else possible_blocks(plan, memory.stages)


def _block_lines(reading: LogReading, plan: ReleasePlan) -> list[Line]:
    made = plan.sizes
    lines = []
    if reading.attention_block_size is not None:
        lines.append(_line("attention_block_size", reading.attention_block_size, made.attention_block_size))
    if reading.mamba_padding_pct is not None:
        percent = None if made.state_padding_pct is None else float(f"{made.state_padding_pct:.2f}")
        lines.append(_line("mamba_padding_pct", reading.mamba_padding_pct, percent))
    if reading.padding:
        lines.append(_padding_line(reading, plan))
    if reading.layout is not None and plan.layout is not None:
        lines.append(_line("layout", reading.layout, plan.layout))
    return lines


def _refusal_lines(reading: LogReading, plan: ReleasePlan, memory: Memory, length: int) -> list[Line]:
    """What vLLM's refusal says that one request needs, and the longest that would fit."""
    refusal = reading.refusal
    if refusal is None:
        return []
    lines = []
    if refusal.needed_gib is not None:
        needed = [round(size / GIB, 2) for size in needed_bytes(plan, length)]
        agreeing = refusal.needed_gib in needed
        lines.append(Line("needed_gib", refusal.needed_gib, refusal.needed_gib if agreeing else max(needed), agreeing))
    if refusal.estimated_max_model_len is not None and memory.stages is not None:
        told, stages, own = refusal.estimated_max_model_len, memory.stages, reading.available_from == "refusal"
        if memory.is_bound and len(stages) == 1 and refusal.available_gib is not None:
            stages, own = (bytes_printed_as(refusal.available_gib),), True  # of the rank that was refused
        known = [each for each in stages if each is not None]
        if len(known) == len(stages):
            planned = _estimated(plan, known, length, told, reserved=own)
            lines.append(_line("estimated_max_model_len", told, planned))
    return lines


def _estimated(plan: ReleasePlan, stages: Sequence[range], length: int, told: int, *, reserved: bool) -> int:
    """The longest length by the memory: the log's where some value that prints as its GiB gives it, else the nearest.

    ``reserved``: the memory is the error's own, from which a null block is taken already.
    """
    null = plan.block_bytes if reserved and plan.rules.null_block == "reserved" else (0,) * len(stages)

    def at(step: int) -> int:
        memory = [each[min(step, len(each) - 1)] + block for each, block in zip(stages, null, strict=True)]
        return longest_model_len(plan, memory, length)

    steps = range(max(len(each) for each in stages))
    return at(min(bisect_left(steps, told, key=at), len(steps) - 1))


def _padding_line(reading: LogReading, plan: ReleasePlan) -> Line:
    """A log repeats its padding lines, and a rank may print them too: the distinct ones are compared."""
    told = {(layers, f"{percent:.2f}") for layers, percent in reading.padding}
    planned = {(bucket.layers, f"{bucket.percent:.2f}") for bucket in plan.padding}
    return Line(
        "padding_layers",
        list(dict.fromkeys(layers for layers, _ in reading.padding)),
        list(dict.fromkeys(bucket.layers for bucket in plan.padding)),
        told == planned,
    )


def _misses(reading: LogReading, number: int, printed: Printed) -> int:
    """How many of the log's three numbers this number of blocks does not give."""
    return (
        (reading.num_gpu_blocks not in (None, number))
        + (reading.kv_cache_size_tokens not in (None, printed.kv_cache_size_tokens))
        + (reading.max_concurrency is not None and reading.max_concurrency != float(printed.concurrency_text))
    )


def _best(reading: LogReading, plan: ReleasePlan, blocks: range, length: int) -> Found:
    """Of the possible numbers of blocks the one that gives most of the log's numbers: one value for all of them.

    Of equals the one in the middle of the range.
    """
    best: tuple[int, int] | None = None
    middle = blocks[len(blocks) // 2]
    for number, printed in outcomes(plan, blocks, length, MAXIMUM_OUTCOMES):
        rank = (_misses(reading, number, printed), abs(number - middle))
        if best is None or rank < best:
            best, found = rank, Found(number, printed)
    return found


def _capacity_lines(reading: LogReading, found: Found) -> list[Line]:
    number, printed = found.num_blocks, found.printed
    rows: tuple[tuple[str, Value, Value], ...] = (
        ("num_gpu_blocks", reading.num_gpu_blocks, number),
        ("kv_cache_size_tokens", reading.kv_cache_size_tokens, printed.kv_cache_size_tokens),
        ("max_concurrency", reading.max_concurrency, float(printed.concurrency_text)),
    )
    return [_line(what, log, plan) for what, log, plan in rows if log is not None]


def _line(what: str, log: Value, plan: Value) -> Line:
    return Line(what, log, plan, log == plan)


def first_cause(lines: Sequence[Line], plan: ReleasePlan, found: Found | None, length: int | None) -> str | None:
    """The first line that differs, and what it follows from, in one sentence; None where none does."""
    line = next((line for line in lines if line.agrees is False), None)
    if line is None:
        return None
    if line.what in _CAUSES:
        return _CAUSES[line.what].format(log=_shown(line.log), plan=_shown(line.plan))
    return _capacity_cause(line, plan, found, length)


def _shown(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


_CAUSES = {
    "attention_block_size": "The attention block differs ({log} tokens in the log, {plan} in the plan): the bytes of "
    "a state or of a token in one attention layer are not those of the config and options that were planned.",
    "mamba_padding_pct": "The state's padding differs ({log} % in the log, {plan} % in the plan): a state does not "
    "have the planned bytes.",
    "padding_layers": "The groups differ: the log adds {log} padding layers, the plan {plan}, so kinds of layers or "
    "their numbers are not those of the planned config.",
    "layout": "The KV cache layout differs ({log} in the log, {plan} in the plan): another attention backend, "
    "connector or VLLM_KV_CACHE_LAYOUT was at work.",
}


def _groups(plan: ReleasePlan) -> str:
    return "1 group" if len(plan.groups) == 1 else f"{len(plan.groups)} groups"


def _capacity_cause(line: Line, plan: ReleasePlan, found: Found | None, length: int | None) -> str:
    sizes = ", ".join(f"{size:,}" for size in plan.block_bytes)
    log, ours = _shown(line.log), _shown(line.plan)
    if line.what == "num_gpu_blocks":
        return (
            f"The number of blocks differs ({log} in the log, {ours} in the plan): the log's memory does not divide "
            f"into the planned blocks of {sizes} bytes, so page sizes or groups differ."
        )
    held = plan.group_blocks(length) if length is not None else ()
    if line.what in ("needed_gib", "estimated_max_model_len"):
        return (
            f"What one request needs differs ({log} in the log, {ours} in the plan): the plan counts {sum(held):,} "
            f"blocks of {sizes} bytes."
        )
    if line.what == "kv_cache_size_tokens":
        return (
            f"The tokens differ ({log} in the log, {ours} in the plan with {found.num_blocks if found else 0:,} blocks "
            f"of {sizes} bytes in {_groups(plan)} and {sum(held):,} blocks a request): no memory that rounds "
            "to the printed GiB gives the log's number."
        )
    return (
        f"The concurrency differs ({log} in the log, {ours} in the plan): a request does not take the planned "
        f"{sum(held):,} blocks ({', '.join(map(str, sorted(set(held), reverse=True)))} by group)."
    )
