"""EAGLE with the layers of Llama or Mistral.

vLLM: model_executor/models/llama_eagle.py and mistral_eagle.py, whose layers are llama.py's (LlamaDecoderLayer).
"""

from __future__ import annotations

from kvplan.drafters.common import on_last_stage, require_causal
from kvplan.errors import Refused
from kvplan.families.common import uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("EagleLlamaForCausalLM", "EagleMistralForCausalLM")

_WHY = ("num_key_value_heads, head_dim", "model_executor/models/llama_eagle.py, LlamaDecoderLayer")


def layers(model: Model) -> list[Layer]:
    """Refused with layer_types: vLLM looks the drafter's layers up under their numbers after the target's."""
    config = model.config
    require_causal(config)
    if config.get("layer_types"):
        raise Refused(
            f"{config.where}: layer_types is set, which vLLM 0.33.0 reads beyond its end for {model.architecture}; "
            "remove it."
        )
    return uniform_gqa(on_last_stage(model), _WHY)
