"""The project's goldens (tests/goldens), replayed with kvplan: every field in which the two differ."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from recorder.fold import unfold_layers, unfold_plans

from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.kernel_blocks import kernel_blocks
from kvplan.pipeline import PlanRequest, plan
from kvplan.request import engine_args
from kvplan.result import Group, Plan, Result
from kvplan.spec import CacheLayer, MultipleOf, StateSpec

FOLDER = Path(os.environ.get("KVPLAN_GOLDENS") or Path(__file__).parent / "goldens")
CONFIGS = Path(os.environ.get("KVPLAN_CONFIGS") or FOLDER / "configs")
"""Elsewhere, the goldens and configs of KVPLAN_GOLDENS and KVPLAN_CONFIGS are compared."""
DEFAULT_GPU = "B200"
DEFAULT_MEMORY = 100 * 2**30


class Golden(NamedTuple):
    """What vLLM made of one case, and the file and vLLM version that it comes from."""

    file: str
    vllm: str
    content: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.content["id"])


@cache
def goldens() -> tuple[Golden, ...]:
    """Every golden, file by file."""
    found = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        if path.stem != "cases":
            head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            found += [Golden(path.stem, head["vllm"], line) for line in lines]
    return tuple(found)


def request(golden: Golden) -> PlanRequest:
    """The plan request of the case: vLLM's own options, straight into EngineArgs."""
    case = golden.content
    model = case["model"]
    local = CONFIGS / f"{model}.json"
    memory = case.get("available_memory_bytes", DEFAULT_MEMORY)
    options = {**case.get("options", {})}
    drafting = options.get("speculative_config")
    if drafting and (CONFIGS / f"{drafting.get('model')}.json").is_file():
        options["speculative_config"] = {**drafting, "model": str(CONFIGS / f"{drafting['model']}.json")}
    args: EngineArgs = engine_args(str(local) if local.is_file() else model, options, case.get("env", {}))
    return PlanRequest(
        args,
        gpu=case.get("gpu", DEFAULT_GPU),
        offline=True,
        available_memory_bytes=(memory,) * args.pipeline_parallel_size if isinstance(memory, int) else tuple(memory),
    )


def differences(golden: Golden) -> list[str]:
    """One line per field that differs: what the engine has, and what kvplan has."""
    case = golden.content
    refused = case.get("error")
    try:
        result = plan(request(golden))
    except KvplanError as error:
        return [] if refused or never_starts(case) else [f"kvplan refuses what vLLM plans: {error}"]
    if refused:
        return [f"kvplan plans what vLLM refuses ({refused['step']}): {refused['type']} {refused['begins']}"]
    return [line for part in _parts(case, result) for line in part]


def never_starts(case: dict[str, Any]) -> bool:
    """Whether vLLM stops under every grouping before it makes groups: kvplan may refuse that at once."""
    main = case["plans"]["main"]
    plans = [{**main, **plan} for plan in case["plans"].values()]
    return all(plan.get("error") and not plan["groups"] for plan in plans)


def _parts(case: dict[str, Any], result: Result) -> Iterator[list[str]]:
    yield differing(
        "options",
        {**case["resolved"], **case["block_sizes"]},
        {key: _plain(value) for key, value in result.options().items()},
    )
    yield differing("drafter", case["drafter"] or {}, result.drafter._asdict() if result.drafter else {})
    yield differing("layout", {"name": case["layout"]}, {"name": result.layout.name})
    yield differing("layout", {"candidates": tuple(case["layout_candidates"])}, result.layout._asdict())
    engine_layers = unfold_layers(case["specs"], case["layers"])
    names = [name for name, _ in engine_layers]
    yield differing("layers", {"names": names}, {"names": [layer.name for layer in result.layers]})
    own = {layer.name: layer for layer in result.layers}
    for name, row in engine_layers:
        if name in own:
            yield differing(name, _without_kernel_names(row), described(own[name]))
            yield undeclared(name, row, own[name])
    for grouping, engine in unfold_plans(case["plans"], names, "main").items():
        used = grouping == result.selected
        yield differing(grouping, comparable(engine, used), plan_row(result.plans[grouping], result.layers))


def differing(where: str, engine: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """The keys of ``engine`` under which ``ours`` has another value."""
    return [
        f"{where}.{key}: vLLM {_short(value)}, kvplan {_short(ours.get(key))}"
        for key, value in engine.items()
        if ours.get(key) != value
    ]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 300 else f"{text[:300]}..."


def _without_kernel_names(row: dict[str, Any]) -> dict[str, Any]:
    """The row without ``mamba_type``: it tells kernels apart, and the two sides name them in their own ways."""
    return {key: value for key, value in row.items() if key != "mamba_type"}


def undeclared(name: str, row: dict[str, Any], layer: CacheLayer) -> list[str]:
    """Spec fields that the engine left at their default, and kvplan did not."""
    spec = layer.spec if isinstance(layer.spec, StateSpec) else layer.spec.with_row_padding()
    return [
        f"{name}.{field}: vLLM has the default, kvplan {_short(getattr(spec, field))}"
        for field, default in spec._field_defaults.items()
        if field not in row and field != "mamba_type" and getattr(spec, field) != default
    ]


def described(layer: CacheLayer) -> dict[str, Any]:
    """A layer of kvplan under the names of the engine's row."""
    spec = layer.spec if isinstance(layer.spec, StateSpec) else layer.spec.with_row_padding()
    fields: dict[str, Any] = {name: _plain(value) for name, value in spec._asdict().items()}
    fields |= {
        "owner": layer.owner,
        "backend": layer.backend,
        "kernel_block_sizes": [_plain(size) for size in layer.kernel_block_sizes],
        "page_size_bytes": spec.page_size_bytes,
        "block_stride_alignment_bytes": spec.block_stride_alignment_bytes,
        "stage": layer.stage,
    }
    if isinstance(spec, StateSpec):
        fields["shapes"] = [list(shape) for shape in spec.shapes]
        fields["dtypes"] = list(spec.dtypes)
    return fields


def _plain(value: Any) -> Any:
    if isinstance(value, MultipleOf):
        return {"multiple_of": value.base}
    return list(value) if isinstance(value, tuple) else value


def comparable(engine: dict[str, Any], used: bool = False) -> dict[str, Any]:
    """An engine's plan in the form of `plan_row`; a plan that the engine ``used`` fails where it cannot be bound.

    Whether a packed cache can be bound is left out where vLLM's worker stops with a KeyError: 0.33.0 does not find the
    specs of layers that share another's cache (Gemma 4 E2B and E4B), which says nothing of the cache itself. A
    StopIteration there (a stage that runs no layer of a group) is what kvplan says of the plan.
    """
    out = {key: value for key, value in engine.items() if key not in ("error", "binding", "groups")}
    error, binding = engine.get("error"), engine.get("binding", {}).get("type")
    out["fails"] = error is not None or binding == "StopIteration" or (used and binding not in (None, "KeyError"))
    if error is None and binding not in ("KeyError", "StopIteration"):
        out["binds"] = "binding" not in engine
    keys = ("kind", "block_size", "page_size_bytes", "blocks_per_request", "uniform_type", "is_eagle_group", "layers")
    for i, group in enumerate(engine["groups"]):
        out[f"group {i}"] = {key: group.get(key, False) for key in keys}
    if error is not None and not engine["groups"]:
        return {"layout": engine["layout"], "fails": True}
    out["num_groups"] = len(engine["groups"])
    return out


def plan_row(own: Plan, layers: tuple[CacheLayer, ...]) -> dict[str, Any]:
    """A plan of kvplan under the names that goldens have."""
    stages = max(1, len(own.bytes_per_block_per_stage))
    bound = [kernel_blocks(own, layers, stage) for stage in range(stages)] if own.groups else []
    out = {
        **own._asdict(),
        "fails": own.error is not None,
        "binds": all(stage.error is None for stage in bound),
        "num_groups": len(own.groups),
        "bytes_per_block_per_stage": list(own.bytes_per_block_per_stage),
    }
    if bound:
        sizes = [list(stage.group_sizes) for stage in bound]
        out["kernel_block_sizes"] = sizes[0] if stages == 1 else sizes
    for i, group in enumerate(own.groups):
        out[f"group {i}"] = _group(group)
    return out


def _group(group: Group) -> dict[str, Any]:
    page = sum(spec.page_size_bytes for spec in group.layer_specs) if group.uniform_type else group.page_size_bytes
    return {
        "kind": group.kind,
        "block_size": group.block_size,
        "page_size_bytes": page,
        "blocks_per_request": group.blocks_per_request,
        "uniform_type": group.uniform_type,
        "is_eagle_group": group.is_eagle_group,
        "layers": list(group.layers),
    }
