"""Laguna: full and sliding layers with query heads of their own, sinks in the sliding ones where the config says so.

vLLM: model_executor/models/laguna.py (LagunaDecoderLayer, LagunaAttention).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, head_dim, num_layers, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("LagunaForCausalLM",)

_WHY = ("layer_types, num_key_value_heads", "model_executor/models/laguna.py, LagunaDecoderLayer")


def layers(model: Model) -> Iterator[Layer]:
    """The model takes the model-level window away, so a full layer is full whatever sliding_window says."""
    config = model.config
    count = num_layers(config)
    windows = windows_by_layer_type(config, count)
    heads = [config.integer("num_attention_heads")] * count
    if config.get("num_attention_heads_per_layer") is not None:
        heads = config.integers("num_attention_heads_per_layer", length=count, minimum=1)
    sinks = config.truthy("swa_attention_sink_enabled")
    kinds = config.texts("layer_types", ["full_attention"] * count, length=count)
    for i, window in enumerate(windows):
        yield attention(
            model,
            f"model.layers.{i}.self_attn.attn",
            _WHY,
            num_heads=heads[i],
            num_kv_heads=config.integer("num_key_value_heads"),
            head_size=head_dim(config),
            sliding_window=window,
            has_sink=sinks and kinds[i] == "sliding_attention",
        )
