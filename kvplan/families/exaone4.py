"""EXAONE 4: sliding layers with a full layer every few (vLLM: model_executor/models/exaone4.py, Exaone4Attention)."""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Exaone4ForCausalLM",)

_WHY = ("layer_types, sliding_window", "model_executor/models/exaone4.py, Exaone4Attention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    config.sequence("layer_types")
    return uniform_gqa(model, _WHY, windows=windows_by_layer_type(config, num_layers(config)))
