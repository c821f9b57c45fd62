"""DeciLM (Nemotron-NAS): every layer has KV heads of its own, and some have no attention at all.

vLLM: model_executor/models/nemotron_nas.py (DeciLMDecoderLayer, DeciLMAttention).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, head_dim, model_window, num_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DeciLMForCausalLM",)

_WHY = ("block_configs: attention.n_heads_in_group", "model_executor/models/nemotron_nas.py, DeciLMDecoderLayer")


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    heads, size, window = config.integer("num_attention_heads"), head_dim(config), model_window(model)
    for i, block in enumerate(config.objects("block_configs", length=num_layers(config))):
        part = block.section("attention")
        if part is None:
            raise block.error("attention", "is missing; add it as the published config has it")
        if part.boolean("no_op", False):
            continue
        per_group = part.integer("n_heads_in_group", maximum=heads)
        yield attention(
            model,
            f"model.layers.{i}.self_attn.attn",
            _WHY,
            num_heads=heads,
            num_kv_heads=heads // per_group,
            head_size=size,
            sliding_window=window,
        )
