"""EAGLE3 and P-EAGLE with the layers of Llama or Qwen3.

vLLM: model_executor/models/llama_eagle3.py and qwen3_eagle3.py.
"""

from __future__ import annotations

from kvplan.drafters.common import require_causal
from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "Eagle3LlamaForCausalLM",
    "LlamaForCausalLMEagle3",
    "Eagle3MiniMaxM2ForCausalLM",
    "Eagle3Qwen2_5vlForCausalLM",
    "Eagle3Qwen3vlForCausalLM",
    "PeagleLlamaForCausalLM",
    "Eagle3Qwen3ForCausalLM",
    "PeagleQwen3ForCausalLM",
)

_LLAMA = ("num_key_value_heads, head_dim, layer_types", "model_executor/models/llama_eagle3.py, LlamaDecoderLayer")
_QWEN3 = (
    "num_key_value_heads, head_dim, layer_types",
    "model_executor/models/qwen3_eagle3.py, Qwen3Eagle3DecoderLayer",
)


def layers(model: Model) -> list[Layer]:
    config = model.config
    require_causal(config)
    windows = windows_by_layer_type(config, num_layers(config))
    if model.architecture in ("Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM"):
        return uniform_gqa(model, _QWEN3, windows=windows, num_kv_heads=config.integer("num_key_value_heads"))
    return uniform_gqa(model, _LLAMA, windows=windows)
