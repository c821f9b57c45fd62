"""GLM-OCR: the text model is GLM-4's; the vision tower caches nothing (vLLM: model_executor/models/glm_ocr.py)."""

from __future__ import annotations

from kvplan.families.common import check_split_tower, nested
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("GlmOcrForConditionalGeneration",)

TRAITS = Traits(is_multimodal=True)

_TOWER = {"num_heads": 16, "intermediate_size": 4096, "out_hidden_size": 1536}
"""Defaults of the vision config's class."""


def layers(model: Model) -> list[Layer]:
    vision = model.root.section("vision_config", _TOWER)
    for field, usual in _TOWER.items():
        check_split_tower(model, field, usual if vision is None else vision.integer(field, usual))
    return nested(model, "Glm4ForCausalLM")
