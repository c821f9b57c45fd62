"""DSpark inside a DeepSeek-V4.1 checkpoint: layers with window caches, numbered after the target's.

vLLM: models/deepseek_v41/nvidia/dspark.py (DSparkDeepseekV4Model). Its layers read their sizes from the config of the
target.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.drafters.deepseek_v4_dspark import stage_indices
from kvplan.errors import Refused
from kvplan.families.deepseek_v41 import ARCHITECTURES as TARGETS
from kvplan.families.deepseek_v41 import window_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DSparkV41DraftModel",)

_LAYERS = 3
_WHY = (
    "n_mtp_layers, num_nextn_predict_layers, or three",
    "models/deepseek_v41/nvidia/dspark.py, DSparkDeepseekV4Model",
)


def layers(model: Model) -> Iterator[Layer]:
    if model.target is None or model.target.architecture not in TARGETS:
        raise Refused(
            f"{model.config.where}: DSpark's stages of DeepSeek-V4.1 draft for DeepSeek-V4.1 only; choose another "
            "drafter."
        )
    given = (model.config.optional_integer(k, minimum=0, maximum=1024) for k in _COUNTS)
    count = next((n for n in given if n), _LAYERS)
    return window_layers(model._replace(config=model.target.config), stage_indices(model, count), _WHY)


_COUNTS = ("n_mtp_layers", "num_nextn_predict_layers")
