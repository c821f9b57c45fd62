"""Multi-token prediction modules with grouped-query attention that are numbered on from the target's layers.

vLLM: model_executor/models/glm4_moe_mtp.py, hy_v3_mtp.py, ernie_mtp.py and mimo_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import after_target, grouped_query, target_config
from kvplan.layers import AttentionLayer
from kvplan.model import Model

ARCHITECTURES = ("Glm4MoeMTPModel", "HYV3MTPModel", "ErnieMTPModel", "MiMoMTPModel")

_FILES = {
    "Glm4MoeMTPModel": "glm4_moe_mtp.py, Glm4MoeMultiTokenPredictor",
    "HYV3MTPModel": "hy_v3_mtp.py, HYV3MultiTokenPredictor",
    "ErnieMTPModel": "ernie_mtp.py, ErnieMultiTokenPredictor",
    "MiMoMTPModel": "mimo_mtp.py, MiMoMultiTokenPredictor",
}


def layers(model: Model) -> list[AttentionLayer]:
    """All of it from the target's config. MiMo is a Qwen2, which reads no head_dim."""
    config = target_config(model)
    why = ("num_nextn_predict_layers", f"model_executor/models/{_FILES[model.architecture]}")
    divided = model.architecture == "MiMoMTPModel"
    return grouped_query(model, config, after_target(config), why, divided=divided)
