"""Llama, Mistral and the models that vLLM runs as Llama: Ministral 3, InternLM 3, ERNIE 4.5, Phi-3, TeleChat 3, ...

vLLM: model_executor/models/llama.py (LlamaAttention), which mistral.py, ernie45.py, phi3.py and phi3v.py build on;
apertus.py reads its config in the same way.
"""

from __future__ import annotations

from kvplan.families.common import num_layers, require_causal, uniform_gqa, windows_by_layer_type
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "LlamaForCausalLM",
    "ApertusForCausalLM",
    "MistralForCausalLM",
    "Ministral3ForCausalLM",
    "InternLM3ForCausalLM",
    "Ernie4_5ForCausalLM",
    "Phi3ForCausalLM",
    "Phi3VForCausalLM",
    "IQuestCoderForCausalLM",
    "LLaMAForCausalLM",
    "TeleChat3ForCausalLM",
)

_WHY = ("num_key_value_heads, head_dim, layer_types", "model_executor/models/llama.py, LlamaAttention")


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "Phi3VForCausalLM")


def layers(model: Model) -> list[Layer]:
    config = model.config
    require_causal(config)
    return uniform_gqa(model, _WHY, windows=windows_by_layer_type(config, num_layers(config)))
