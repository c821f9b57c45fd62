"""Plans and comparisons as CSV: one line per grouping, bytes and tokens as plain numbers, unknown as nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from kvplan.comparison import Comparison, Deployment, Row, bytes_per_request, deployment_of
from kvplan.gpus import Gpu
from kvplan.result import CATEGORIES, Plan, Result

_DEPLOYMENT = ("model", "drafter", "method", "num_speculative_tokens", "engine", "gpu")
_PLAN = (
    "grouping",
    "used",
    "layout",
    "error",
    "num_groups",
    "group_size",
    "bytes_per_block",
    "num_blocks",
    "blocks_per_request",
    "bytes_per_request",
    "max_model_len",
    "kv_cache_size_tokens",
    "max_concurrency",
    "longest_model_len",
    "growing_bytes_per_token",
    "growing_fraction",
    "bounded_bytes_per_request",
    "page_rounding_bytes_per_request",
    "fixed_bytes",
    "bytes_per_token",
)
_COSTS = tuple(f"{category}_bytes" for category in CATEGORIES)
COLUMNS = (*_DEPLOYMENT, *_PLAN, *_COSTS)
"""The columns of a plan; a comparison has ``change`` after them."""


def plan_csv(result: Result) -> str:
    """Three lines under a header: main, uniform and packed."""
    deployment = deployment_of(result)
    return _text(COLUMNS, (_cells(deployment, name, plan) for name, plan in result.plans.items()))


def compare_csv(comparison: Comparison) -> str:
    """Three lines for the baseline and for each variant."""
    entries = (comparison.baseline, *comparison.variants)
    rows = (
        [*_cells(entry.deployment, row.grouping, row.plan), _change(row, entry is comparison.baseline)]
        for entry in entries
        for row in entry.rows
    )
    return _text((*COLUMNS, "change"), rows)


_LAYER = (
    "name",
    "owner",
    "kind",
    "block_size",
    "page_size_bytes",
    "unpadded_page_size_bytes",
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "dtype",
    "sliding_window",
    "attention_chunk_size",
    "tokens_per_state",
    "state_shapes",
    "state_dtypes",
    "num_speculative_blocks",
    "backend",
    "kernel_block_sizes",
)


def layers_csv(result: Result) -> str:
    """A line for each layer, under the names of the JSON document; what is a list there is written as JSON."""
    from json import dumps

    from kvplan.report.document import layer_documents

    found = layer_documents(result)
    return _text(_LAYER, ([dumps(v) if isinstance(v := each[key], list) else v for key in _LAYER] for each in found))


def gpus_csv(gpus: Iterable[Gpu]) -> str:
    """A line for each GPU, under the names of the JSON document; the capability as ``9.0``."""
    cells = ([".".join(map(str, v)) if isinstance(v, tuple) else v for v in gpu] for gpu in gpus)
    return _text(Gpu._fields, cells)


_KERNEL = (
    "group",
    "layers",
    "backend",
    "block_size",
    "kernel_block_size",
    "kernel_blocks_per_block",
    "kernel_block_stride",
    "kernel_page_bytes",
    "mode",
)


def kernel_csv(groups: Iterable[Mapping[str, Any]]) -> str:
    """A line for each of the document's attention groups, with the number of its layers."""
    return _text(_KERNEL, ([len(v) if isinstance(v := each[key], list) else v for key in _KERNEL] for each in groups))


def lines_csv(lines: Iterable[Sequence[Any]]) -> str:
    """A line for each number that a start-up log has; ``agrees`` is empty where it is not judged."""
    cells = ([";".join(map(str, v)) if isinstance(v, list) else _truth(v) for v in line] for line in lines)
    return _text(("what", "log", "plan", "agrees", "reason"), cells)


def _truth(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _change(row: Row, is_baseline: bool) -> Any:
    return None if is_baseline else row.change


def _text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def _cells(deployment: Deployment, grouping: str, plan: Plan) -> list[Any]:
    drafter, padding, cost = deployment.drafter, plan.padding, plan.request_cost
    return [
        deployment.model,
        *((drafter.id, drafter.method, drafter.num_speculative_tokens) if drafter else (None, None, None)),
        deployment.engine,
        deployment.options.get("gpu"),
        grouping,
        "true" if grouping == deployment.selected else "false",
        plan.layout,
        plan.error,
        len(plan.groups) if plan.groups else None,
        plan.group_size,
        plan.bytes_per_block,
        plan.num_blocks,
        plan.blocks_per_request,
        bytes_per_request(plan),
        plan.max_model_len,
        plan.kv_cache_size_tokens,
        plan.max_concurrency,
        plan.longest_model_len,
        *(padding or (None,) * 4),
        *((cost.fixed_bytes, cost.bytes_per_token) if cost else (None, None)),
        *((cost.at_max_model_len.get(category, 0) if cost else None) for category in CATEGORIES),
    ]
