"""EAGLE with the layers of Cohere 2: sliding and full ones after the target's.

vLLM: model_executor/models/cohere_eagle.py, whose layers are commandr.py's (CohereAttention).
"""

from __future__ import annotations

from kvplan.drafters.common import on_last_stage, target_config
from kvplan.errors import Refused
from kvplan.families.common import head_dim, num_layers, uniform_gqa
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("EagleCohereForCausalLM",)

_WHY = ("layer_types, sliding_window", "model_executor/models/cohere_eagle.py, CohereEagleDecoderLayer")


def kinds(model: Model) -> list[str]:
    """The kinds of the drafter's layers: vLLM reads them behind the target's own list, under their numbers after it."""
    config, target = model.config, target_config(model)
    own = list(config.texts("layer_types"))
    known = [*target.texts("layer_types"), *own] if target.get("layer_types") is not None else own
    first = model.layers_on_last_stage
    found = known[first : first + num_layers(config)]
    if len(found) < num_layers(config):
        raise Refused(
            f"{config.where}: layer_types ends before the drafter's layers, which vLLM counts from {first}; "
            "use a target that has layer_types too."
        )
    return found


def layers(model: Model) -> list[Layer]:
    """A window counts the query's own token too."""
    config = model.config
    windows = [window(config) if kind == "sliding_attention" else None for kind in kinds(model)]
    return uniform_gqa(on_last_stage(model), _WHY, head_size=head_dim(config), windows=windows)


def window(config: Config) -> int:
    return config.integer("sliding_window") + 1
