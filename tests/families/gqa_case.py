"""A config that a test writes out, planned for a GPU, and what its layers cache as plain rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.pipeline import PlanRequest, plan
from kvplan.result import Result
from kvplan.spec import AttentionSpec

Row = tuple[str, int, str, int, int, int, int, int | None]
"""Kind, number of layers, name of the first, KV heads, head size, block size (tokens), page bytes, window or chunk."""


def planned(folder: Path, config: Mapping[str, Any], gpu: str = "H200", **options: Any) -> Result:
    """The plan of a config under vLLM's options."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return plan(PlanRequest(EngineArgs(str(folder), **options), gpu=gpu, offline=True))


def rows(folder: Path, config: Mapping[str, Any], gpu: str = "H200", **options: Any) -> list[Row]:
    """Layers with equal specs as one row, in the order of their first layer."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for layer in planned(folder, config, gpu, **options).layers:
        spec = layer.spec
        assert isinstance(spec, AttentionSpec)
        local = spec.attention_chunk_size if spec.sliding_window is None else spec.sliding_window
        key = (spec.kind, spec.num_kv_heads, spec.head_size, spec.block_size, spec.page_size_bytes, local)
        found.setdefault(key, []).append(layer.name)
    return [(key[0], len(names), names[0], *key[1:]) for key, names in found.items()]
