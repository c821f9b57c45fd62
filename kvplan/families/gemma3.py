"""Gemma 3: five sliding layers to one full layer; the multimodal wrapper caches what its text model caches.

vLLM: model_executor/models/gemma3.py (Gemma3Attention) and gemma3_mm.py.
"""

from __future__ import annotations

from kvplan.families.common import check_tower, num_layers, require_causal, uniform_gqa, windows_by_layer_type
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")

_WHY = ("layer_types, sliding_window", "model_executor/models/gemma3.py, Gemma3Attention")


_TOWER = {"num_attention_heads": 12, "intermediate_size": 3072}
"""Defaults of the vision config's class, SigLIP's."""


def traits(architecture: str) -> Traits:
    multimodal = architecture == "Gemma3ForConditionalGeneration"
    return Traits(is_multimodal=multimodal, multimodal_prefix_lm=multimodal)


def layers(model: Model) -> list[Layer]:
    config = model.config
    prefix = "language_model.model" if model.architecture.endswith("ForConditionalGeneration") else "model"
    require_causal(config)
    if model.architecture == "Gemma3ForConditionalGeneration":
        check_tower(model, _TOWER, whole_on_request=False)
    windows = windows_by_layer_type(config, num_layers(config))
    return uniform_gqa(model, _WHY, prefix=prefix, windows=windows, head_size=config.integer("head_dim"))
