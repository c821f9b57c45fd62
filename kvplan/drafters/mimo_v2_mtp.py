"""The multi-token prediction module of MiMo-V2: one layer with the target's sliding attention.

vLLM: model_executor/models/mimo_v2_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import target_config
from kvplan.families.mimo_v2 import sliding_layer
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MiMoV2MTPModel", "MiMoV2OmniMTPModel")

_WHY = ("sliding_window_size, swa_*", "model_executor/models/mimo_v2_mtp.py, MiMoV2MTPLayer")


def layers(model: Model) -> list[Layer]:
    layer = sliding_layer(model._replace(config=target_config(model)))
    return [layer._replace(name="model.mtp.layers.0.self_attn.attn", why=_WHY)]
