"""EAGLE and EAGLE3 with Llama's or Qwen3's attention: a few layers numbered after the target's.

vLLM: model_executor/models/llama_eagle.py, llama_eagle3.py, qwen3_eagle3.py.
"""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "EagleLlamaForCausalLM",
    "Eagle3LlamaForCausalLM",
    "LlamaForCausalLMEagle3",
    "Eagle3MiniMaxM2ForCausalLM",
    "Eagle3Qwen2_5vlForCausalLM",
    "Eagle3Qwen3vlForCausalLM",
    "Eagle3Qwen3ForCausalLM",
    "PEagleDraftModel",
    "PeagleLlamaForCausalLM",
    "PeagleQwen3ForCausalLM",
)

_WHY = ("num_key_value_heads, head_dim", "model_executor/models/llama_eagle3.py, LlamaDecoderLayer")


def layers(model: Model) -> list[Layer]:
    return uniform_gqa(model, _WHY, windows=windows_by_layer_type(model.config, num_layers(model.config)))
