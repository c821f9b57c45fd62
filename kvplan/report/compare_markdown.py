"""`kvplan compare --format markdown`: the table and the largest causes, the rest folded."""

from __future__ import annotations

from kvplan.comparison import Comparison, Entry, bytes_per_request
from kvplan.report import changes, costs
from kvplan.report.compare_text import headline, is_same, label, outcome, with_label
from kvplan.report.markdown import bullets, escape, folded, table
from kvplan.report.numbers import number, percent, signed_size, size
from kvplan.report.text import growing

_HEAD = ("", "grouping", "groups", "block", "growing padding", "blocks per request", "tokens", "change")
_SHOWN = 3
"""Causes that are shown before the fold."""


def compare_markdown(comparison: Comparison) -> str:
    """The headline, one table over deployments and groupings, and per deployment the causes, largest first."""
    base = comparison.baseline
    rows = [cells for entry in (base, *comparison.variants) for cells in _rows(entry, entry is base)]
    note = f"In bold what the engine uses; change of tokens against the same grouping {escape(with_label(base))}."
    parts = [f"**{escape(headline(comparison))}**", table(_HEAD, rows, right=2), note]
    causes = [_causes(base, entry) for entry in comparison.variants]
    return "\n\n".join([*parts, *(text for text in causes if text)]) + "\n"


def _rows(entry: Entry, is_baseline: bool) -> list[list[str]]:
    out = []
    for i, row in enumerate(entry.rows):
        plan = row.plan
        tokens = "" if plan.kv_cache_size_tokens is None else number(plan.kv_cache_size_tokens)
        cells = [
            number(len(plan.groups)) if plan.groups else "",
            "" if plan.bytes_per_block is None else size(plan.bytes_per_block),
            escape(growing(plan)),
            "" if plan.blocks_per_request is None else number(plan.blocks_per_request),
            "does not start" if plan.error else tokens,
            "" if is_baseline or row.change is None else percent(row.change, sign=True),
        ]
        name = f"**{row.grouping}**" if row.used else row.grouping
        out.append([escape(label(entry)) if i == 0 else "", name, *cells])
    return out


def _causes(base: Entry, entry: Entry) -> str:
    if is_same(base, entry):
        return ""
    title = f"#### {escape(label(entry))}: {outcome(base, entry)}"
    before, after = bytes_per_request(base.deployment.plan), bytes_per_request(entry.deployment.plan)
    if before is None or after is None:
        return f"{title}\n\n{escape(entry.deployment.plan.error or 'The engine plans no blocks for it.')}"
    old, new = changes.holder(base.deployment), changes.holder(entry.deployment)
    lines = [
        f"{signed_size(cause.difference)} {costs.name(cause.category, old, new)}: "
        f"{costs.contrast(cause.category, old, new)}"
        for cause in entry.causes
    ]
    text = f"One request takes {size(after)} instead of {size(before)} ({signed_size(after - before)}):"
    rest = [*lines[_SHOWN:], *changes.structure(base.deployment, entry.deployment)]
    parts = [
        title,
        text,
        bullets(lines[:_SHOWN]),
        folded("Smaller causes, and what changed in the groups", bullets(rest)),
    ]
    return "\n\n".join(part for part in parts if part)
