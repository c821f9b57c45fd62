"""Muse Spark's DSpark drafter: dense attention layers that draft a block at once, numbered after the target's.

vLLM: models/muse_spark/common/dspark.py, models/muse_spark/nvidia/model.py (MuseSpark1xAttention).
"""

from __future__ import annotations

from kvplan.families.common import attention, decoder_names, model_window, num_layers, require
from kvplan.families.muse_spark import check_gated_heads
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MuseSparkDSparkModel",)

_WHY = ("global_attn_cfg, every_n_layers_nope", "models/muse_spark/nvidia/model.py, MuseSpark1xAttention")
_FIELDS = (
    "confidence_head_with_markov",
    "enable_confidence_head",
    "markov_rank",
    "mask_token_id",
    "target_hidden_size",
    "target_layer_ids",
)
"""Fields that the class reads and its config class has no default for."""


def windows(config: Config, indices: range) -> list[int | None]:
    """Each layer's window from ``global_attn_cfg``, a cycle that ends with the last layer: 0 is full attention."""
    cycle = config.get("global_attn_cfg")
    if not cycle or isinstance(cycle, str):
        return [None] * len(indices)
    entries = config.sequence("global_attn_cfg")
    period = config.optional_integer("every_n_layers_nope")
    shift = 0 if period is None else period - len(indices) % period
    chosen = [entries[(i + shift) % len(entries)] for i in indices]
    return [
        config.checked_integer("global_attn_cfg", entry) if isinstance(entry, (int, float)) and entry > 0 else None
        for entry in chosen
    ]


def check_layers(config: Config, indices: range) -> None:
    """KvplanError where vLLM refuses the drafter: layers with experts, or rotary positions on some layers only."""
    require(config, *_FIELDS)
    moe = config.section("moe")
    if moe is not None and moe.truthy("is_enabled", True):
        step = moe.integer("interleave_moe_layer_step", 1, minimum=0)
        dense = moe.integer("n_dense_layers_before_moe", 0, minimum=0)
        if step and any((i + 1) % step == 0 and i >= dense for i in indices):
            raise config.error("moe", "gives layers experts, and vLLM runs dense drafters of this class only")
    period = config.optional_integer("every_n_layers_nope")
    if config.truthy("use_rope", True) and period and any((len(indices) - i - 1) % period == 0 for i in indices):
        raise config.error("every_n_layers_nope", "takes rotary positions from some layers, and vLLM wants all alike")


def layers(model: Model) -> list[Layer]:
    config = model.config
    indices = range(model.start_layer, model.start_layer + num_layers(config))
    check_layers(config, indices)
    if config.truthy("use_attn_o_gate"):
        check_gated_heads(model)
    template = attention(
        model,
        "",
        _WHY,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=config.integer("head_dim"),
    )
    usual = None if model.target is None else model_window(model.target)
    names = decoder_names("model", len(indices), start=model.start_layer)
    return [
        template._replace(name=name, sliding_window=window or usual)
        for name, window in zip(names, windows(config, indices), strict=True)
    ]
