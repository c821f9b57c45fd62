"""The multi-token prediction modules of DeepSeek-V4: window caches only (vLLM: models/deepseek_v4/nvidia/mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.deepseek_v4 import window_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DeepSeekV4MTPModel",)

_WHY = ("num_nextn_predict_layers", "models/deepseek_v4/nvidia/mtp.py, DeepSeekV4MultiTokenPredictor")


def layers(model: Model) -> Iterator[Layer]:
    count = model.config.integer("num_nextn_predict_layers", maximum=1024)
    return window_layers(model, range(model.start_layer, model.start_layer + count), _WHY)
