"""The multi-token prediction module of Nemotron-H (vLLM: model_executor/models/nemotron_h_mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.drafters.common import num_modules_or_one
from kvplan.errors import Refused
from kvplan.families.nemotron_h import full_attention
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("NemotronHMTPModel",)

_KINDS = ("full_attention", "moe")
_WHY = ("mtp_layers_block_type", "model_executor/models/nemotron_h_mtp.py, NemotronHMultiTokenPredictor")


def layers(model: Model) -> Iterator[Layer]:
    """Refused with several modules, or layers of other kinds than attention and experts, as vLLM refuses."""
    config = model.config
    if (count := num_modules_or_one(config)) != 1:
        raise Refused(f"{config.where}: num_nextn_predict_layers is {count}; vLLM runs one module of Nemotron-H.")
    kinds = config.texts("mtp_layers_block_type", allowed=_KINDS)
    if not kinds:
        raise config.error("mtp_layers_block_type", "must name at least one layer")
    full = full_attention(model)
    for i, kind in enumerate(kinds):
        if kind == "full_attention":
            yield full._replace(name=f"mtp.layers.{i}.mixer.attn", why=_WHY)
