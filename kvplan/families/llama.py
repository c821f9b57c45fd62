"""Llama, Mistral and the models whose attention is Llama's.

vLLM: model_executor/models/llama.py (LlamaAttention) and mistral.py.
"""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM")

_WHY = ("num_key_value_heads, head_dim, layer_types", "model_executor/models/llama.py, LlamaAttention")


def layers(model: Model) -> list[Layer]:
    return uniform_gqa(model, _WHY, windows=windows_by_layer_type(model.config, num_layers(model.config)))
