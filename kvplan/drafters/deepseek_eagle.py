"""EAGLE and EAGLE3 with the latent attention layers of DeepSeek-V2 and V3.

vLLM: model_executor/models/deepseek_eagle.py and deepseek_eagle3.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import decoder_names, mla, num_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("EagleDeepSeekMTPModel", "Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM")

_EAGLE = ("kv_lora_rank, qk_rope_head_dim", "model_executor/models/deepseek_eagle.py, DeepseekV2Model")
_EAGLE3 = ("kv_lora_rank, qk_rope_head_dim", "model_executor/models/deepseek_eagle3.py, DeepseekV2Eagle3DecoderLayer")


def layers(model: Model) -> list[Layer]:
    config = model.config
    if "index_topk" in config:
        raise Refused(f"{config.where}: index_topk is set; vLLM's EAGLE classes of DeepSeek have no sparse attention.")
    eagle = model.architecture == "EagleDeepSeekMTPModel"
    first = model.layers_on_last_stage if eagle else model.start_layer
    return mla(model, decoder_names("model", num_layers(config), start=first), _EAGLE if eagle else _EAGLE3)
