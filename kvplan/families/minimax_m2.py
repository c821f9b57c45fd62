"""MiniMax-M2: grouped-query attention in every layer (vLLM: model_executor/models/minimax_m2.py)."""

from __future__ import annotations

from kvplan.families.common import require, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MiniMaxM2ForCausalLM",)

_WHY = ("num_key_value_heads, head_dim", "model_executor/models/minimax_m2.py, MiniMaxM2Attention")


def layers(model: Model) -> list[Layer]:
    require(model.config, "rotary_dim", "scoring_func")
    return uniform_gqa(model, _WHY, num_kv_heads=model.config.integer("num_key_value_heads"))
