"""The multi-token prediction modules of MiniMax-M3: sparse layers (vLLM: models/minimax_m3/nvidia/mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.minimax_m3 import named, sparse_pair
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MiniMaxM3MTP",)

_WHY = ("num_mtp_modules", "models/minimax_m3/nvidia/mtp.py, MiniMaxM3MultiTokenPredictorLayer")
_MAX_MODULES = 1024


def layers(model: Model) -> Iterator[Layer]:
    """One sparse layer per module, numbered from 0."""
    pair = sparse_pair(model, _WHY)
    for i in range(model.config.integer("num_mtp_modules", maximum=_MAX_MODULES)):
        yield from named(pair, f"model.layers.{i}")
