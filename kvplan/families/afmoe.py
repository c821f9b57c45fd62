"""Arcee Trinity (AFMoE): sliding layers with a full layer every few (vLLM: model_executor/models/afmoe.py)."""

from __future__ import annotations

from kvplan.families.common import check_routed, num_layers, require, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("AfmoeForCausalLM",)

_WHY = ("layer_types, sliding_window", "model_executor/models/afmoe.py, AfmoeAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    require(config, "score_func", "route_norm", "n_group", "topk_group")
    config.sequence("layer_types")
    dense = config.integer("num_dense_layers", minimum=0)
    if dense < num_layers(config):
        check_routed(model, lambda i: i >= dense)
    return uniform_gqa(model, _WHY, windows=windows_by_layer_type(config, num_layers(config)))
