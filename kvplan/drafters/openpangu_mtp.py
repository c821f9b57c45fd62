"""The multi-token prediction modules of openPangu: MLA layers after the target's.

vLLM: model_executor/models/openpangu_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import after_target, target_config
from kvplan.families.common import mla
from kvplan.families.openpangu import check_latent
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("OpenPanguMTPModel",)

_WHY = ("num_nextn_predict_layers", "model_executor/models/openpangu_mtp.py, OpenPanguMultiTokenPredictor")


def layers(model: Model) -> list[Layer]:
    """The target's config numbers the modules, the drafter's describes them."""
    check_latent(model.config)
    return mla(model, after_target(target_config(model)), _WHY)
