"""The multi-token prediction modules of DeepSeek-V3 and GLM-4.7-Flash: MLA layers after the target's.

vLLM: model_executor/models/deepseek_mtp.py and glm4_moe_lite_mtp.py.
"""

from __future__ import annotations

from kvplan.families.common import decoder_names, mla
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DeepSeekMTPModel", "Glm4MoeLiteMTPModel")

_WHY = ("num_nextn_predict_layers", "model_executor/models/deepseek_mtp.py, DeepSeekMultiTokenPredictor")


def layers(model: Model) -> list[Layer]:
    config = model.config
    count = config.integer("num_nextn_predict_layers", maximum=1024)
    return mla(model, decoder_names("model", count, start=model.start_layer), _WHY)
