"""The multi-token prediction modules of GLM-5.3-Flash: sparse MLA layers (vLLM: models/glm5next/common/mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.glm5_next import mla_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Glm5NextMTPModel",)

_WHY = ("num_nextn_predict_layers", "models/glm5next/common/mtp.py, Glm5NextMultiTokenPredictorLayer")
_MAX_MODULES = 1024


def layers(model: Model) -> Iterator[Layer]:
    """How many modules there are, and their numbers, follow from the target's text config."""
    config = model.config if model.target is None else model.target.config
    count = config.integer("num_nextn_predict_layers", maximum=_MAX_MODULES)
    first = config.integer("num_hidden_layers")
    return mla_layers(model, range(first, first + count), _WHY)
