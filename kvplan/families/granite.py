"""Granite, dense and MoE: grouped-query attention; with layer_types, sliding layers and attention sinks.

vLLM: model_executor/models/granite.py (GraniteAttention, granite_layer_attn_params), granitemoe.py.
"""

from __future__ import annotations

from kvplan.families.common import divided_head_dim, num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "GraniteForCausalLM",
    "GraniteSWAForCausalLM",
    "GraniteMoeForCausalLM",
    "GraniteMoeSharedForCausalLM",
    "GraniteMoeSWAForCausalLM",
)

_WHY = ("num_key_value_heads, head_dim, layer_types", "model_executor/models/granite.py, GraniteAttention")
_MOE = ("num_key_value_heads, hidden_size, layer_types", "model_executor/models/granitemoe.py, GraniteMoeAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    windows = windows_by_layer_type(config, num_layers(config))
    has_sink = config.truthy("attention_sinks", config.get("layer_types") is not None)
    if not model.architecture.startswith("GraniteMoe"):
        return uniform_gqa(model, _WHY, windows=windows, has_sink=has_sink)
    kv_heads = config.integer("num_key_value_heads")
    size = divided_head_dim(config)
    return uniform_gqa(model, _MOE, windows=windows, has_sink=has_sink, head_size=size, num_kv_heads=kv_heads)
