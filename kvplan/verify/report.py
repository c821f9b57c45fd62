"""A verdict as text and as a document."""

from __future__ import annotations

from typing import Any

from kvplan.logs.rules import source_of
from kvplan.report.lines import wrap
from kvplan.report.numbers import concurrency, plural
from kvplan.report.style import VIEW, View
from kvplan.verify.judge import Verdict
from kvplan.verify.lines import Line
from kvplan.verify.pool import ReleasePlan
from kvplan.verify.unjudged import by_reason

SCHEMA_VERSION = 1
_NAMED = ("token_line", "request_blocks", "in_flight", "mamba", "hybrid_block", "group_size", "pages")
_CANNOT = "The log cannot be judged."
_LINE_KEYS = ("what", "log", "plan", "agrees")
_TITLES = {
    "attention_block_size": "attention block, tokens",
    "mamba_padding_pct": "state padding, %",
    "padding_layers": "padding layers",
    "layout": "KV cache layout",
    "needed_gib": "one request needs, GiB",
    "estimated_max_model_len": "longest that would fit",
    "num_gpu_blocks": "blocks",
    "kv_cache_size_tokens": "KV cache size, tokens",
    "max_concurrency": "maximum concurrency",
}


def verify_document(verdict: Verdict) -> dict[str, Any]:
    """The JSON document of ``kvplan verify``; ``plan`` is null where the log cannot be planned."""
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": None if verdict.rules is None else _engine(verdict),
        "read": verdict.reading.document(),
        "missing": list(verdict.reading.missing),
        "plan": None if verdict.plan is None else _plan(verdict, verdict.plan),
        "lines": [dict(zip(_LINE_KEYS, line, strict=False)) for line in verdict.lines],
        "not_judged": [{"lines": whats, "reason": reason} for reason, whats in by_reason(verdict.lines).items()],
        "first_cause": verdict.first_cause,
        "refusal": verdict.refusal,
        "failure": verdict.reading.failure,
        "notes": [*verdict.reading.notes, *verdict.notes],
    }


def _engine(verdict: Verdict) -> dict[str, Any]:
    rules = verdict.rules
    assert rules is not None
    used = [source_of(rules, name) for name in _NAMED]
    return {
        "release": rules.release,
        "basis": rules.basis,
        "rules": [
            {"rule": row.rule, "value": row.value, "since": row.since, "source": row.source, "what": row.what}
            for row in used
        ],
    }


def _plan(verdict: Verdict, plan: ReleasePlan) -> dict[str, Any]:
    result, found, length = verdict.result, verdict.found, verdict.reading.max_model_len
    assert result is not None
    assert length is not None
    return {
        "model": result.model._asdict(),
        "drafter": None if result.drafter is None else result.drafter._asdict(),
        "gpu": getattr(result.config.gpu, "name", None),
        "block_size": plan.sizes.block_size,
        "attention_block_size": plan.sizes.attention_block_size,
        "mamba_cache_mode": plan.mode,
        "max_in_flight_tokens": plan.limits.max_in_flight_tokens,
        "layout": plan.layout,
        "padding_layers": [bucket.layers for bucket in plan.padding],
        "groups": [
            {"layers": len(group.layers), "kind": group.spec.kind, "block_size": group.spec.block_size,
             "blocks_per_request": blocks}
            for group, blocks in zip(plan.groups, plan.group_blocks(length), strict=True)
        ],
        "bytes_per_block": list(plan.block_bytes),
        "num_blocks": None if found is None else found.num_blocks,
        "kv_cache_size_tokens": None if found is None else found.printed.kv_cache_size_tokens,
        "max_concurrency": None if found is None else float(found.printed.concurrency_text),
    }  # fmt: skip


def verify_text(verdict: Verdict, view: View = VIEW) -> str:
    """The verdict for a reader: what was read, each line that both have, and the first cause."""
    out = wrap(_headline(verdict), view.columns)
    for name, words in _what_was_read(verdict):
        out += wrap(words, view.columns, f"  {name:<9}  ")
    out.append("")
    if verdict.lines:
        out += [*_table(verdict.lines), ""]
    told = [*verdict.reading.notes, *verdict.notes]
    if verdict.reading.failure is not None:
        told.append(f"The start-up failed: {verdict.reading.failure}.")
    if verdict.first_cause is not None:
        told.append(f"First cause: {verdict.first_cause}")
    told += _not_judged(verdict)
    for sentence in told:
        out += wrap(sentence, view.columns, "", "  ")
    return "\n".join(out).rstrip("\n") + "\n"


def _not_judged(verdict: Verdict) -> list[str]:
    """What is not judged and why, a sentence for each reason."""
    reasons = by_reason(verdict.lines)
    if verdict.refusal is not None:
        reasons.setdefault(verdict.refusal, [])
    whole = len(reasons) == 1 and all(line.agrees is None for line in verdict.lines)
    return [
        f"Not judged: {reason}" if whole else f"Not judged: {', '.join(_short(what) for what in whats)}. {reason}"
        for reason, whats in reasons.items()
    ]


def _short(what: str) -> str:
    """A line's title without its unit."""
    return _TITLES[what].partition(", ")[0]


def _headline(verdict: Verdict) -> str:
    """How many of the lines that were found are judged, and what came of it."""
    found = len(verdict.lines)
    judged = sum(line.agrees is not None for line in verdict.lines)
    differing = sum(line.agrees is False for line in verdict.lines)
    if verdict.refusal is not None:
        verb = "agrees" if judged == 1 else "agree"
        told = f"{judged} {_is(judged)} judged and {verb}" if judged else "none is judged"
        return f"The log cannot be judged: of {plural(found, 'line')} found, {told}." if found else _CANNOT
    if judged < found:
        outcome = f"{differing} of them {_differ(differing)}" if differing else "all of them agree"
        return f"{judged} of {plural(found, 'line')} found {_is(judged)} judged; {outcome}."
    if differing:
        return f"{differing} of {plural(found, 'line')} {_differ(differing)}."
    return f"Everything found agrees: {found} of {plural(found, 'line')}."


def _differ(number: int) -> str:
    return "differs" if number == 1 else "differ"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _what_was_read(verdict: Verdict) -> list[tuple[str, str]]:
    """What the log says and what it was planned with, each under its name."""
    reading, rules, result = verdict.reading, verdict.rules, verdict.result
    drafter = f" with {reading.drafter}" if reading.drafter else ""
    out = [("model", f"{reading.model or 'not in the log'}{drafter}")]
    if result is not None and result.model.id != reading.model:
        out.append(("config", f"{result.model.id} ({result.model.source})"))
    out.append(("version", reading.version or "not in the log"))
    if rules is not None:
        out.append(("rules", f"vLLM {rules.release}: {rules.basis}"))
        out.append(("", source_of(rules, "token_line").what))
    if reading.available_kv_cache_gib is not None:
        told = f"{reading.available_kv_cache_gib} GiB: every number of bytes that prints so is allowed"
        out.append(("KV memory", told))
    if verdict.plan is not None and reading.max_model_len is not None:
        held = sum(verdict.plan.group_blocks(reading.max_model_len))
        size = ", ".join(f"{size:,}" for size in verdict.plan.block_bytes)
        out.append(
            ("plan", f"groups {len(verdict.plan.groups)}, bytes of a block {size}, blocks of a request {held:,}")
        )
    return out


def _table(lines: tuple[Line, ...]) -> list[str]:
    rows = [
        ("", "log", "plan", ""),
        *((_TITLES[line.what], _cell(line.log, line.what), _planned(line), _mark(line)) for line in lines),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows]


def _mark(line: Line) -> str:
    return {True: "agrees", False: "DIFFERS", None: "not judged"}[line.agrees]


def _planned(line: Line) -> str:
    """The plan's value; nothing where none was made for the line."""
    return "" if line.agrees is None and line.plan is None else _cell(line.plan, line.what)


def _cell(value: Any, what: str) -> str:
    """A value as vLLM prints it."""
    if what == "max_concurrency" and isinstance(value, float):
        return concurrency(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value}"
