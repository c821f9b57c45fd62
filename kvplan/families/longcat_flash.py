"""LongCat-Flash: two latent attention layers in every decoder layer.

vLLM: model_executor/models/longcat_flash.py (FlashDecoderLayer).
"""

from __future__ import annotations

from kvplan.families.common import mla, num_layers, require
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("LongcatFlashForCausalLM",)

_WHY = ("num_layers, kv_lora_rank, qk_rope_head_dim", "model_executor/models/longcat_flash.py, FlashDecoderLayer")


def layers(model: Model) -> list[Layer]:
    config = model.config
    require(config, "mla_scale_q_lora", "mla_scale_kv_lora", "zero_expert_type")
    count = num_layers(config, "num_layers")
    return mla(model, (f"model.layers.{i}.self_attn.{j}.attn" for i in range(count) for j in range(2)), _WHY)
