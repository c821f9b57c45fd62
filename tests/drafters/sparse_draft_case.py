"""A target and what it drafts with, written out and planned; the drafter's caches as plain rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.model import DRAFTER
from kvplan.pipeline import PlanRequest, plan

Row = tuple[str, str, int, int]
"""Name, kind, block size (tokens), page bytes."""


def draft_rows(
    folder: Path,
    config: Mapping[str, Any],
    gpu: str,
    drafter: Mapping[str, Any] | None = None,
    *,
    speculative: Mapping[str, Any],
    **options: Any,
) -> list[Row]:
    """One row per cache of the drafter: the model ``drafter``, or the modules in the target's own checkpoint."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    asked = dict(speculative)
    if drafter is not None:
        asked["model"] = str(folder / "drafter")
        (folder / "drafter").mkdir(exist_ok=True)
        (folder / "drafter" / "config.json").write_text(json.dumps(drafter), encoding="utf-8")
    args = EngineArgs(str(folder), speculative_config=asked, **options)
    layers = plan(PlanRequest(args, gpu=gpu, offline=True)).layers
    return [
        (layer.name, getattr(layer.spec, "kind", "mamba"), layer.spec.block_size, layer.spec.page_size_bytes)
        for layer in layers
        if layer.owner == DRAFTER
    ]
