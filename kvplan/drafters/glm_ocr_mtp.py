"""The multi-token prediction module of GLM-OCR: layers of GLM-4 (vLLM: model_executor/models/glm_ocr_mtp.py)."""

from __future__ import annotations

from kvplan.drafters.common import after_target, grouped_query, target_of
from kvplan.layers import AttentionLayer
from kvplan.model import Model

ARCHITECTURES = ("GlmOcrMTPModel",)

_WHY = ("num_nextn_predict_layers", "model_executor/models/glm_ocr_mtp.py, GlmOcrMultiTokenPredictor")


def layers(model: Model) -> list[AttentionLayer]:
    """The target's text model numbers the modules, the drafter's describes them."""
    target = target_of(model, "GlmOcrForConditionalGeneration")
    model.config.integer("num_key_value_heads")
    return grouped_query(model, model.config, after_target(target.config), _WHY)
