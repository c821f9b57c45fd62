"""Granite: grouped-query attention; with layer_types, sliding layers and attention sinks.

vLLM: model_executor/models/granite.py (GraniteAttention, granite_layer_attn_params).
"""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("GraniteForCausalLM", "GraniteSWAForCausalLM")

_WHY = ("num_key_value_heads, head_dim, layer_types", "model_executor/models/granite.py, GraniteAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    windows = windows_by_layer_type(config, num_layers(config))
    has_sink = config.truthy("attention_sinks", config.get("layer_types") is not None)
    return uniform_gqa(model, _WHY, windows=windows, has_sink=has_sink)
