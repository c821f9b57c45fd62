"""The multi-token prediction modules of Hy4: decoder layers after the target's (vLLM: models/hy_v4/nvidia/mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.hy_v4 import hy_v4_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("HYV4MTPModel",)

_WHY = ("num_nextn_predict_layers", "models/hy_v4/nvidia/mtp.py, HYV4MultiTokenPredictor")
_MAX_MODULES = 1024


def layers(model: Model) -> Iterator[Layer]:
    """The number of modules is the target's, and there is at least one."""
    target = model.config if model.target is None else model.target.config
    count = max(target.integer("num_nextn_predict_layers", minimum=0, maximum=_MAX_MODULES), 1)
    return hy_v4_layers(model, range(model.start_layer, model.start_layer + count), _WHY)
