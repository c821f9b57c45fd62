"""A config that a test writes out, planned for a GPU, and what its layers cache as plain rows, states included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.pipeline import PlanRequest, plan
from kvplan.result import Result
from kvplan.spec import StateSpec

Row = tuple[str, int, str, int, int]
"""Kind, number of layers, name of the first, block size (tokens), page bytes."""


def planned(folder: Path, config: Mapping[str, Any], gpu: str, **options: Any) -> Result:
    """The plan of a config under vLLM's options."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return plan(PlanRequest(EngineArgs(str(folder), **options), gpu=gpu, offline=True))


def rows(folder: Path, config: Mapping[str, Any], gpu: str, **options: Any) -> list[Row]:
    """Layers of one kind, block size and page as one row, in the order of their first layer."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for layer in planned(folder, config, gpu, **options).layers:
        kind = "mamba" if isinstance(layer.spec, StateSpec) else layer.spec.kind
        found.setdefault((kind, layer.spec.block_size, layer.spec.page_size_bytes), []).append(layer.name)
    return [(kind, len(names), names[0], block, page) for (kind, block, page), names in found.items()]


def names(folder: Path, config: Mapping[str, Any], gpu: str, **options: Any) -> list[str]:
    """Names of the layers with a cache, in the engine's order."""
    return [layer.name for layer in planned(folder, config, gpu, **options).layers]
