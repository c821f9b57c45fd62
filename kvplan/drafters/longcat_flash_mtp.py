"""The multi-token prediction module of LongCat-Flash: one latent attention layer.

vLLM: model_executor/models/longcat_flash_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import target_config
from kvplan.families.common import mla, num_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("LongCatFlashMTPModel",)

_WHY = ("num_layers, kv_lora_rank", "model_executor/models/longcat_flash_mtp.py, LongCatMultiTokenPredictor")


def layers(model: Model) -> list[Layer]:
    """The target has two attention layers in each decoder layer, so the module's number is twice theirs."""
    config = target_config(model)
    number = 2 * num_layers(config, "num_layers")
    return mla(model._replace(config=config), [f"model.layers.{number}.self_attn.attn"], _WHY)
