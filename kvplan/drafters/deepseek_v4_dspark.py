"""DSpark inside a DeepSeek-V4 checkpoint: a few layers with window caches, numbered after the target's.

vLLM: models/deepseek_v4/nvidia/dspark.py (DSparkDeepseekV4Model). Its layers read their sizes from the target's config.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.errors import Refused
from kvplan.families.deepseek_v4 import ARCHITECTURES as TARGETS
from kvplan.families.deepseek_v4 import window_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DSparkDraftModel",)

_LAYERS = 3
_WHY = ("n_mtp_layers, or three", "models/deepseek_v4/nvidia/dspark.py, DSparkDeepseekV4Model")


def stage_indices(model: Model, count: int) -> range:
    """Indices of ``count`` layers after the drafter's own num_hidden_layers.

    Refused where that is not the target's: vLLM builds the layers from the target's config.
    """
    config, target = model.config, model.start_layer
    own = config.integer("num_hidden_layers")
    if own != target:
        raise Refused(
            f"{config.where}: num_hidden_layers ({own}) is not the target's ({target}); DSpark stages belong to the "
            "checkpoint that they were made for."
        )
    if not config.integers("dspark_target_layer_ids"):
        raise config.error("dspark_target_layer_ids", "is empty, and DSpark drafts from these layers")
    config.integer("dspark_markov_rank")
    return range(own, own + count)


def layers(model: Model) -> Iterator[Layer]:
    if model.target is None or model.target.architecture not in TARGETS:
        raise Refused(
            f"{model.config.where}: DSpark's stages of DeepSeek-V4 draft for DeepSeek-V4 only; choose another drafter."
        )
    count = model.config.optional_integer("n_mtp_layers", minimum=0, maximum=1024) or _LAYERS
    return window_layers(model._replace(config=model.target.config), stage_indices(model, count), _WHY)
