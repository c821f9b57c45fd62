"""Hy3: grouped-query attention in every layer (vLLM: model_executor/models/hy_v3.py)."""

from __future__ import annotations

from kvplan.families.common import check_routed, require, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("HYV3ForCausalLM",)

_WHY = ("num_key_value_heads, head_dim", "model_executor/models/hy_v3.py, HYV3Attention")


def layers(model: Model) -> list[Layer]:
    require(model.config, "first_k_dense_replace", "expert_hidden_dim", "route_norm")
    dense = model.config.integer("first_k_dense_replace", minimum=0)
    check_routed(model, lambda i: i >= dense)
    return uniform_gqa(model, _WHY, num_kv_heads=model.config.integer("num_key_value_heads"))
