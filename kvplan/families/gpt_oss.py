"""gpt-oss: every other layer slides, every layer has attention sinks (vLLM: model_executor/models/gpt_oss.py)."""

from __future__ import annotations

from kvplan.errors import DoesNotStart
from kvplan.families.common import num_layers, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("GptOssForCausalLM",)

_WHY = ("sliding_window on even layers", "model_executor/models/gpt_oss.py, OAIAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    heads, ranks = config.integer("num_key_value_heads"), model.tensor_parallel_size
    if heads < ranks:
        raise DoesNotStart(
            f"{config.where}: vLLM's gpt-oss repeats no KV head, so num_key_value_heads {heads} is too few for "
            f"--tensor-parallel-size {ranks}; use {heads} or fewer."
        )
    window = config.optional_integer("sliding_window")
    windows = [window if i % 2 == 0 else None for i in range(num_layers(config))]
    return uniform_gqa(
        model, _WHY, suffix="attn.attn", windows=windows, head_size=config.integer("head_dim"), has_sink=True
    )
