"""InternLM2: grouped-query attention in every layer (vLLM: model_executor/models/internlm2.py)."""

from __future__ import annotations

from kvplan.families.common import divided_head_dim, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("InternLM2ForCausalLM",)

_WHY = ("num_key_value_heads, hidden_size", "model_executor/models/internlm2.py, InternLM2Attention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    return uniform_gqa(
        model,
        _WHY,
        suffix="attention.attn",
        head_size=divided_head_dim(config),
        num_kv_heads=config.integer("num_key_value_heads"),
    )
