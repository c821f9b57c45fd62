"""Gemma and Gemma 2: a head size of its own in every config; in Gemma 2 every other layer slides.

vLLM: model_executor/models/gemma.py (GemmaAttention) and gemma2.py (Gemma2Attention).
"""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("GemmaForCausalLM", "Gemma2ForCausalLM")

_FULL = ("num_key_value_heads, head_dim", "model_executor/models/gemma.py, GemmaAttention")
_INTERLEAVED = ("layer_types, sliding_window", "model_executor/models/gemma2.py, Gemma2Attention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    size, heads = config.integer("head_dim"), config.integer("num_key_value_heads")
    if model.architecture == "GemmaForCausalLM":
        return uniform_gqa(model, _FULL, head_size=size, num_kv_heads=heads)
    config.sequence("layer_types")
    windows = windows_by_layer_type(config, num_layers(config))
    return uniform_gqa(model, _INTERLEAVED, head_size=size, num_kv_heads=heads, windows=windows)
