"""Muse Glimmer: three sliding layers to one full layer; the vision encoder caches nothing.

vLLM: model_executor/models/muse_glimmer.py (MuseGlimmerAttention).
"""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa, windows_by_layer_type
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration")

TRAITS = Traits(is_multimodal=True)

_WHY = ("layer_types, sliding_window", "model_executor/models/muse_glimmer.py, MuseGlimmerAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    config.sequence("layer_types")
    return uniform_gqa(
        model,
        _WHY,
        windows=windows_by_layer_type(config, num_layers(config)),
        head_size=config.integer("head_dim"),
        num_kv_heads=config.integer("num_key_value_heads"),
    )
