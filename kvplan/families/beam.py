"""Beam: sliding layers with a full layer every few (vLLM: models/beam/nvidia/model.py, attention.py)."""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("BeamForCausalLM",)

_WHY = ("layer_types, sliding_window", "models/beam/nvidia/attention.py, BeamAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    if config.truthy("tie_word_embeddings"):
        raise Refused(f"{config.where}: tie_word_embeddings is true, and vLLM runs Beam with a head of its own only.")
    return uniform_gqa(model, _WHY, windows=windows_by_layer_type(config, num_layers(config)))
