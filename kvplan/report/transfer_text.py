"""What a KV connector moves, as a table and as plain values: a row per grouping and its layout."""

from __future__ import annotations

from typing import Any

from kvplan.report.decision import stages_words
from kvplan.report.lines import Column, table, titles, wrap
from kvplan.report.numbers import number, size
from kvplan.report.style import View
from kvplan.result import Result
from kvplan.transfer import Transfer, transfer

_COLUMNS = (
    Column("  grouping", right=False, keep=9),
    Column("layout", right=False, keep=9),
    Column("regions", keep=9),
    Column("each", keep=8),
    Column("block", keep=7),
    Column("regions/req", keep=9),
    Column("request", keep=9),
)


def transfers(result: Result) -> dict[str, Transfer]:
    """What is moved under each grouping that has groups."""
    return {name: transfer(plan) for name, plan in result.plans.items() if plan.groups}


def transfer_lines(result: Result, view: View) -> list[str]:
    """The table of one rank's regions; groups that differ are shown as a range."""
    found = transfers(result)
    if not found:
        return []
    rows = []
    for name, moved in found.items():
        groups = range(len(result.plans[name].groups))
        rows.append(
            (
                f"{'*' if name == result.selected else ' '} {name}",
                moved.layout,
                _span([moved.regions_per_block(g) for g in groups], number),
                _span([run.bytes for run in moved.runs], size),
                _span([moved.bytes_per_block(g) for g in groups], size),
                number(moved.regions_per_request),
                size(moved.bytes_per_request),
            )
        )
    plan = result.plans[result.selected]
    spread = stages_words(plan)
    where = f"on one rank of each stage, and counted{spread}" if spread else "on one rank"
    legend = {
        "regions": f"regions: runs of contiguous bytes of one block {where}",
        "each": "each: bytes of one region",
        "block": "block: bytes of a block",
        "request": f"request: of {number(plan.max_model_len or result.config.max_model_len)} tokens",
    }
    shown = titles(_COLUMNS, rows, view.columns, indent="")
    words = "; ".join(text for title, text in legend.items() if title in shown)
    lines = table(_COLUMNS, rows, view.columns, view.glyphs.ellipsis, indent="")
    return view.titled("What a KV connector moves", [*lines, *wrap(words, view.columns)])


def _span(values: list[int], words: Any) -> str:
    low, high = min(values), max(values)
    return str(words(low)) if low == high else f"{words(low)} to {words(high)}"


def transfer_document(result: Result) -> dict[str, Any]:
    """The same as plain values, a list of groups for each grouping."""
    return {
        name: {
            "layout": moved.layout,
            "groups": [
                {
                    "regions_per_block": moved.regions_per_block(index),
                    "bytes_per_block": moved.bytes_per_block(index),
                    "bytes_per_region": sorted({run.bytes for run in moved.runs if run.group == index}),
                    "blocks_per_request": group.blocks_per_request,
                }
                for index, group in enumerate(result.plans[name].groups)
            ],
            "regions_per_request": moved.regions_per_request,
            "bytes_per_request": moved.bytes_per_request,
        }
        for name, moved in transfers(result).items()
    }
