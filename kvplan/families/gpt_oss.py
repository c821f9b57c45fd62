"""gpt-oss: every other layer slides, every layer has attention sinks (vLLM: model_executor/models/gpt_oss.py)."""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("GptOssForCausalLM",)

_WHY = ("sliding_window on even layers", "model_executor/models/gpt_oss.py, OAIAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    window = config.optional_integer("sliding_window")
    windows = [window if i % 2 == 0 else None for i in range(num_layers(config))]
    return uniform_gqa(
        model, _WHY, suffix="attn.attn", windows=windows, head_size=config.integer("head_dim"), has_sink=True
    )
