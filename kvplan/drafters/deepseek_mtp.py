"""The multi-token prediction modules of DeepSeek-V3 and GLM-4.7-Flash: MLA layers after the target's, sparse as it is.

vLLM: model_executor/models/deepseek_mtp.py and glm4_moe_lite_mtp.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.drafters.common import after_target, num_modules, target_config
from kvplan.families.common import mla
from kvplan.families.sparse_mla import sparse_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DeepSeekMTPModel", "Glm4MoeLiteMTPModel")

_WHY = ("num_nextn_predict_layers", "model_executor/models/deepseek_mtp.py, DeepSeekMultiTokenPredictor")


def layers(model: Model) -> Iterable[Layer]:
    """The target's config numbers the modules, the drafter's describes them; each sparse one has an indexer."""
    target = target_config(model)
    if "index_topk" in model.config:
        first = target.integer("num_hidden_layers", minimum=0)
        return sparse_layers(model, "model", first, num_modules(target), _WHY, mtp=True)
    return mla(model, after_target(target), _WHY)
