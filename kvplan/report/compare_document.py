"""The JSON document of a comparison, version 1, and the comparison of two saved plan documents.

```
{"schema_version": 1, "kvplan_version", "engine", "model",
 "baseline": ENTRY, "variants": [ENTRY]}
ENTRY = {"label", "drafter": null | {...as in a plan's document}, "layout", "selected",
         "changed_options": {name: [baseline's value, own value]},
         "rows": [{"grouping", "used", "layout", "error", "num_groups", "group_size", "bytes_per_block",
                   "growing_bytes_per_token", "growing_fraction", "blocks_per_request", "bytes_per_request",
                   "num_blocks", "kv_cache_size_tokens", "max_concurrency", "max_model_len", "change"}],
         "change", "causes": [CAUSE], "causes_by_grouping": {grouping: [CAUSE]}, "structure": ["sentence"]}
CAUSE = {"category", "before_bytes", "after_bytes", "difference_bytes", "why"}
```

``change`` is a fraction of the baseline's tokens (-0.31: 31 % fewer), of a row against the baseline's same grouping,
of an entry between the groupings that the engine uses. The differences of ``causes`` add up to the difference of
``bytes_per_request`` of the used rows; those of ``causes_by_grouping`` to that of each grouping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan import __version__
from kvplan.comparison import Cause, Comparison, Entry, Row, changed_options, compare_deployments
from kvplan.report import changes, costs
from kvplan.report.compare_text import label
from kvplan.report.document import SCHEMA_VERSION, plain
from kvplan.report.read_document import read_document


def compare_documents(before: Any, after: Any, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Two plans that were saved as JSON documents, compared. ``names``: the files, for the table and for errors.

    Raises KvplanError for what is not such a document.
    """
    return compare_deployments(read_document(before, names[0]), [read_document(after, names[1])])


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """The document of a comparison: plain dicts, lists, strings and numbers."""
    base = comparison.baseline
    return {
        "schema_version": SCHEMA_VERSION,
        "kvplan_version": __version__,
        "engine": base.deployment.engine,
        "model": base.deployment.model,
        "baseline": _entry(base, base),
        "variants": [_entry(base, entry) for entry in comparison.variants],
    }


def _entry(base: Entry, entry: Entry) -> dict[str, Any]:
    own = entry.deployment
    groupings = {
        name: _causes(causes, changes.holder(base.deployment, name), changes.holder(own, name))
        for name, causes in entry.causes_by_grouping.items()
    }
    return {
        "label": label(entry),
        "drafter": None if own.drafter is None else own.drafter._asdict(),
        "layout": own.layout,
        "selected": own.selected,
        "changed_options": plain(changed_options(base.deployment, own)),
        "rows": [_row(row) for row in entry.rows],
        "change": entry.change,
        "causes": _causes(entry.causes, changes.holder(base.deployment), changes.holder(own)),
        "causes_by_grouping": groupings,
        "structure": changes.structure(base.deployment, own),
    }


def _row(row: Row) -> dict[str, Any]:
    plan, padding = row.plan, row.plan.padding
    return {
        "grouping": row.grouping,
        "used": row.used,
        "layout": plan.layout,
        "error": plan.error,
        "num_groups": len(plan.groups) if plan.groups else None,
        "group_size": plan.group_size,
        "bytes_per_block": plan.bytes_per_block,
        "growing_bytes_per_token": None if padding is None else padding.growing_bytes_per_token,
        "growing_fraction": None if padding is None else padding.growing_fraction,
        "blocks_per_request": plan.blocks_per_request,
        "bytes_per_request": row.bytes_per_request,
        "num_blocks": plan.num_blocks,
        "kv_cache_size_tokens": plan.kv_cache_size_tokens,
        "max_concurrency": plan.max_concurrency,
        "max_model_len": plan.max_model_len,
        "change": row.change,
    }


def _causes(found: Sequence[Cause], before: costs.Holder, after: costs.Holder) -> list[dict[str, Any]]:
    return [
        {
            "category": cause.category,
            "before_bytes": cause.before,
            "after_bytes": cause.after,
            "difference_bytes": cause.difference,
            "why": costs.contrast(cause.category, before, after),
        }
        for cause in found
    ]
