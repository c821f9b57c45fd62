"""Pixtral in Mistral's own format: the text model is Mistral's, the vision encoder caches nothing.

vLLM: model_executor/models/pixtral.py (PixtralForConditionalGeneration, VisionEncoderArgs).
"""

from __future__ import annotations

from kvplan.families.common import nested
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("PixtralForConditionalGeneration",)

TRAITS = Traits(is_multimodal=True)

_VISION = (
    "hidden_size",
    "num_channels",
    "image_size",
    "patch_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "image_token_id",
)


def layers(model: Model) -> list[Layer]:
    vision = model.root.section("vision_config")
    if vision is None:
        raise model.root.error("vision_config", "is missing, and vLLM cannot build the encoder without it")
    for key in _VISION:
        vision.integer(key, minimum=0)
    vision.number("rope_theta")
    return nested(model, model.config.texts("architectures")[0])
