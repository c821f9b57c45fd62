"""The multi-token prediction modules of Kimi-K3: decoder layers after the target's.

vLLM: models/kimi_k3/nvidia/mtp.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.kimi_linear import decoder_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("KimiK3MTPModel",)

_WHY = ("num_nextn_predict_layers", "models/kimi_k3/nvidia/mtp.py, KimiK3MultiTokenPredictorLayer")
_MAX_MODULES = 1024


def layers(model: Model) -> Iterator[Layer]:
    """The modules are built from the target's text config, --hf-overrides included."""
    config = model.config if model.target is None else model.target.config
    count = config.integer("num_nextn_predict_layers", maximum=_MAX_MODULES)
    first = config.integer("num_hidden_layers")
    return decoder_layers(model._replace(config=config), range(first, first + count), _WHY)
