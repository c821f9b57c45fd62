"""The tensors of a deployment, from its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.model import Model
from kvplan.weights.builder import Builder
from kvplan.weights.parts import Tensor
from kvplan.weights.quant.make import make
from kvplan.weights.registry import find


def tensors(
    model: Model,
    method: str | None,
    settings: Mapping[str, Any] | None,
    stage: int = 0,
    tables: set[tuple[Any, ...]] | None = None,
) -> list[Tensor]:
    """Parameters and buffers of one model on the first rank of a stage."""
    module = find(model.architecture)
    packed = module.packed(model)
    renames = module.renames(model) if hasattr(module, "renames") else None
    builder = Builder(model, make(method, settings, packed, renames), stage, tables)
    module.weights(builder)
    return builder.tensors
