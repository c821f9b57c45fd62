"""ERNIE 4.5 MoE: grouped-query attention in every layer (vLLM: model_executor/models/ernie45_moe.py)."""

from __future__ import annotations

from kvplan.families.common import uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Ernie4_5_MoeForCausalLM",)

_WHY = ("num_key_value_heads, head_dim", "model_executor/models/ernie45_moe.py, Ernie4_5_MoeAttention")


def layers(model: Model) -> list[Layer]:
    return uniform_gqa(model, _WHY, num_kv_heads=model.config.integer("num_key_value_heads"))
