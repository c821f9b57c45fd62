"""A plain draft model: a model of its own, whose layers are those of its family.

vLLM: v1/worker/gpu/spec_decode/standalone_ar/speculator.py and v1/spec_decode/draft_model.py.
"""

from __future__ import annotations

from kvplan import families
from kvplan.errors import Refused
from kvplan.families.common import under
from kvplan.layers import AttentionLayer, Layer, MLALayer, StateLayer
from kvplan.model import Model

PREFIX = "draft_model"


def _placed(layer: Layer) -> Layer:
    """The layer under vLLM's prefix, of which classes that number their states apart from their layers keep the first
    part only (Falcon-H1) or nothing (Zamba2)."""
    if ".layers." in layer.name or not isinstance(layer, StateLayer):
        return under(PREFIX, layer)
    first, _, rest = layer.name.partition(".")
    return layer if first.isdecimal() else layer._replace(name=f"{PREFIX}.{rest}")


def layers(model: Model) -> list[Layer]:
    """The family's layers under vLLM's prefix.

    State layers share the states' blocks of a target that has some too; refused beside another target, and with the V1
    runner, which wants one KV cache group for the drafter.
    """
    found = [_placed(layer) for layer in families.find(model.architecture).layers(model)]
    states = model.engine.is_hybrid and model.engine.use_v2_model_runner
    kinds = (AttentionLayer, MLALayer, StateLayer) if states else (AttentionLayer, MLALayer)
    other = next((layer for layer in found if not isinstance(layer, kinds)), None)
    if other is not None:
        raise Refused(
            f"{model.root.where}: {other.name} is no attention layer, and kvplan plans such draft models with the V2 "
            "model runner and targets with attention and states only; choose another drafter."
        )
    return found
