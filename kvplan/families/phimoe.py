"""Phi-3.5-MoE: grouped-query attention in every layer (vLLM: model_executor/models/phimoe.py)."""

from __future__ import annotations

from kvplan.families.common import uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("PhiMoEForCausalLM",)


def layers(model: Model) -> list[Layer]:
    return uniform_gqa(
        model, ("num_key_value_heads, sliding_window", "model_executor/models/phimoe.py, PhiMoEAttention")
    )
