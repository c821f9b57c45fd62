"""EXAONE 4.5: the text model is an EXAONE 4; the vision tower caches nothing.

vLLM: model_executor/models/exaone4_5.py.
"""

from __future__ import annotations

from kvplan.families.common import check_split_tower, nested
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Exaone4_5_ForConditionalGeneration",)

TRAITS = Traits(is_multimodal=True)

_TOWER = {"num_heads": 16, "intermediate_size": 3420}
"""Defaults of the vision config's class."""


def layers(model: Model) -> list[Layer]:
    vision = model.root.section("vision_config", _TOWER)
    for field, usual in _TOWER.items():
        check_split_tower(model, field, usual if vision is None else vision.integer(field, usual))
    return nested(model, "Exaone4ForCausalLM")
