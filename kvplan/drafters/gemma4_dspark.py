"""DSpark for Gemma 4: layers with Gemma 4's heads and caches of their own, all of them full attention.

vLLM: model_executor/models/gemma4_dspark.py (Gemma4DSparkAttention), which builds on gemma4_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.gemma4_mtp import own_layers
from kvplan.layers import AttentionLayer
from kvplan.model import Model

ARCHITECTURES = ("Gemma4DSparkModel",)

_WHY = ("per_layer_config, layer_types", "model_executor/models/gemma4_dspark.py, Gemma4DSparkAttention")


def layers(model: Model) -> list[AttentionLayer]:
    return own_layers(model, "model", _WHY)
