"""A plain draft model: a model of its own, whose layers are those of its family.

vLLM: v1/worker/gpu/spec_decode/standalone_ar/speculator.py and v1/spec_decode/draft_model.py.
"""

from __future__ import annotations

from kvplan import families
from kvplan.errors import Refused
from kvplan.families.common import under
from kvplan.layers import AttentionLayer, Layer, MLALayer
from kvplan.model import Model

PREFIX = "draft_model"


def layers(model: Model) -> list[Layer]:
    """The family's layers under vLLM's prefix. Refused where they are not attention only."""
    found = [under(PREFIX, layer) for layer in families.find(model.architecture).layers(model)]
    other = next((layer for layer in found if not isinstance(layer, (AttentionLayer, MLALayer))), None)
    if other is not None:
        raise Refused(
            f"{model.root.where}: {other.name} is no attention layer, and kvplan plans draft models with attention "
            "layers only; choose another drafter."
        )
    return found
