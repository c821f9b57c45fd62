"""EAGLE with the layers of MiniCPM (vLLM: model_executor/models/minicpm_eagle.py)."""

from __future__ import annotations

from kvplan.drafters.common import grouped_query
from kvplan.families.common import num_layers
from kvplan.layers import AttentionLayer
from kvplan.model import Model

ARCHITECTURES = ("EagleMiniCPMForCausalLM",)

_WHY = ("num_key_value_heads, hidden_size", "model_executor/models/minicpm_eagle.py, EagleMiniCPMDecoderLayer")


def layers(model: Model) -> list[AttentionLayer]:
    config = model.config
    first = model.layers_on_last_stage
    config.integer("num_key_value_heads")
    names = (f"model.eagle_layers.{i}.self_attn.attn" for i in range(first, first + num_layers(config)))
    return grouped_query(model, config, names, _WHY, divided=True)
