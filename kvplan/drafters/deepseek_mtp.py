"""The multi-token prediction modules of DeepSeek-V3 and GLM-4.7-Flash: MLA layers after the target's.

vLLM: model_executor/models/deepseek_mtp.py and glm4_moe_lite_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import after_target, target_config
from kvplan.errors import Refused
from kvplan.families.common import mla
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DeepSeekMTPModel", "Glm4MoeLiteMTPModel")

_WHY = ("num_nextn_predict_layers", "model_executor/models/deepseek_mtp.py, DeepSeekMultiTokenPredictor")


def layers(model: Model) -> list[Layer]:
    """The target's config numbers the modules, the drafter's describes them. Refused with a sparse indexer."""
    if "index_topk" in model.config:
        raise Refused(
            f"{model.config.where}: index_topk is set, and kvplan plans {model.architecture} without it only."
        )
    return mla(model, after_target(target_config(model)), _WHY)
