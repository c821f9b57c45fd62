"""Mixtral: grouped-query attention in every layer (vLLM: model_executor/models/mixtral.py)."""

from __future__ import annotations

from kvplan.families.common import require, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MixtralForCausalLM",)


def layers(model: Model) -> list[Layer]:
    require(model.config, "num_local_experts", "num_experts_per_tok")
    return uniform_gqa(model, ("num_key_value_heads, head_dim", "model_executor/models/mixtral.py, MixtralAttention"))
