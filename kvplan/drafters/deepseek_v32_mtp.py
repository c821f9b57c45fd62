"""The multi-token prediction modules of DeepSeek-V3.2 and GLM-5: sparse MLA layers with an indexer each.

vLLM: models/deepseek_v32/nvidia/mtp.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.sparse_mla import sparse_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DeepseekV32MTPModel",)

_WHY = ("num_nextn_predict_layers", "models/deepseek_v32/nvidia/mtp.py, DeepseekV32MultiTokenPredictorLayer")


def layers(model: Model) -> Iterator[Layer]:
    count = model.config.integer("num_nextn_predict_layers", maximum=1024)
    return sparse_layers(model, "model", model.start_layer, count, _WHY, mtp=True)
