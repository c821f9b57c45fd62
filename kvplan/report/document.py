"""The JSON document, version 1: everything a plan says under stable names.

Bytes are integers, unknown and not applicable are null, lists keep the engine's order. A key is never renamed or
dropped within a version; `read_document` reads what `to_document` wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan import __version__
from kvplan.result import Group, Plan, Reason, Result
from kvplan.spec import AttentionSpec, CacheLayer, MultipleOf, StateSpec

SCHEMA_VERSION = 1


def to_json(document: dict[str, Any]) -> str:
    """A document as JSON text with a newline at its end: a line for each field, and for each item of a list of objects.

    json.dumps with an indent is written in Python and takes ten times as long.
    """
    from json import JSONEncoder

    return _lines(document, "\n", JSONEncoder(ensure_ascii=False).encode) + "\n"


def _lines(value: Any, newline: str, encode: Callable[[Any], str]) -> str:
    if isinstance(value, dict) and value:
        inner = newline + " "
        fields = (f"{encode(str(key))}: {_lines(each, inner, encode)}" for key, each in value.items())
        return f"{{{inner}{f',{inner}'.join(fields)}{newline}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        inner = newline + " "
        return f"[{inner}{f',{inner}'.join(encode(each) for each in value)}{newline}]"
    return encode(value)


def to_document(result: Result) -> dict[str, Any]:
    """The document of a planned deployment: plain dicts, lists, strings and numbers."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kvplan_version": __version__,
        "engine": result.engine,
        "model": result.model._asdict(),
        "drafter": None if result.drafter is None else result.drafter._asdict(),
        "options": {name: plain(value) for name, value in result.options().items()},
        "layers": layer_documents(result),
        "layout": {
            "name": result.layout.name,
            "candidates": list(result.layout.candidates),
            "reasons": [_reason(reason) for reason in result.layout.reasons],
        },
        "selected": result.selected,
        "plans": {name: _plan(plan) for name, plan in result.plans.items()},
        "assumed": list(result.assumed),
        "notes": list(result.notes),
    }


def layer_documents(result: Result) -> list[dict[str, Any]]:
    """The document's layers."""
    known: dict[int, dict[str, Any]] = {}
    return [_layer(layer, known) for layer in result.layers]


def plain(value: Any) -> Any:
    """A value as JSON has it: sequences as lists, mappings as objects, fractions as numbers, the rest as it is."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, MultipleOf):
        return {"multiple_of": value.base}
    if type(value).__name__ == "Fraction":  # imported only where a layer has one
        return int(value) if value.denominator == 1 else float(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)


def _layer(layer: CacheLayer, known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """One layer; layers that share a spec object share the fields that follow from it."""
    spec = layer.spec
    fields = known.get(id(spec))
    if fields is None:
        fields = known[id(spec)] = _state(spec) if isinstance(spec, StateSpec) else _attention(spec)
    return {
        "name": layer.name,
        "owner": layer.owner,
        **fields,
        "backend": layer.backend,
        "kernel_block_sizes": [plain(size) for size in layer.kernel_block_sizes],
    }


def _attention(spec: AttentionSpec) -> dict[str, Any]:
    return {
        "kind": spec.kind,
        "block_size": spec.block_size,
        "page_size_bytes": spec.page_size_bytes,
        "unpadded_page_size_bytes": spec.unpadded_page_size_bytes,
        "num_kv_heads": spec.num_kv_heads,
        "head_size": spec.head_size,
        "head_size_v": spec.head_size_v,
        "dtype": spec.dtype,
        "sliding_window": spec.sliding_window,
        "attention_chunk_size": spec.attention_chunk_size,
        "tokens_per_state": plain(spec.tokens_per_state),
        "state_shapes": None,
        "state_dtypes": None,
        "num_speculative_blocks": None,
    }


def _state(spec: StateSpec) -> dict[str, Any]:
    return {
        "kind": spec.kind,
        "block_size": spec.block_size,
        "page_size_bytes": spec.page_size_bytes,
        "unpadded_page_size_bytes": spec.unpadded_page_size_bytes,
        "num_kv_heads": None,
        "head_size": None,
        "head_size_v": None,
        "dtype": None,
        "sliding_window": None,
        "attention_chunk_size": None,
        "tokens_per_state": None,
        "state_shapes": [list(shape) for shape in spec.shapes],
        "state_dtypes": list(spec.dtypes),
        "num_speculative_blocks": spec.num_speculative_blocks,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {"condition": reason.condition, "holds": reason.holds, "why": reason.why}


def _plan(plan: Plan) -> dict[str, Any]:
    padding, cost = plan.padding, plan.request_cost
    return {
        "layout": plan.layout,
        "error": plan.error,
        "num_groups": len(plan.groups) if plan.groups or plan.error is None else None,
        "group_size": plan.group_size,
        "groups": [_group(group) for group in plan.groups],
        "bytes_per_block": plan.bytes_per_block,
        "num_blocks": plan.num_blocks,
        "blocks_per_request": plan.blocks_per_request,
        "kv_cache_size_tokens": plan.kv_cache_size_tokens,
        "max_concurrency": plan.max_concurrency,
        "max_model_len": plan.max_model_len,
        "longest_model_len": plan.longest_model_len,
        "padding": None if padding is None else padding._asdict(),
        "request_cost": None
        if cost is None
        else {
            "fixed_bytes": cost.fixed_bytes,
            "bytes_per_token": cost.bytes_per_token,
            "at_max_model_len": dict(cost.at_max_model_len),
        },
        "request_cost_parts": {} if cost is None else dict(cost.parts),
        "notes": list(plan.notes),
    }


def _group(group: Group) -> dict[str, Any]:
    """One group. With --max-model-len auto its blocks are those of a request of the model's own length, as the engine
    reports them, and ``fitted_blocks_per_request`` those of the length that fits."""
    fitted = group.blocks_before_auto_fit is not None
    document = {
        "layers": list(group.layers),
        "kind": group.kind,
        "owner": group.owner,
        "block_size": group.block_size,
        "page_size_bytes": group.page_size_bytes,
        "pages_per_block": len(group.layers) + group.padding_pages,
        "padding_pages": group.padding_pages,
        "blocks_per_request": group.blocks_before_auto_fit if fitted else group.blocks_per_request,
        "kernel_block_size": group.kernel_block_size,
    }
    return {**document, "fitted_blocks_per_request": group.blocks_per_request} if fitted else document
