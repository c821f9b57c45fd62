"""DFlash: a few attention layers that draft a whole block at once, after the target's in vLLM's numbering.

vLLM: model_executor/models/qwen3_dflash.py, and qwen3_dflash2.py, which adds convolutions that cache nothing.
"""

from __future__ import annotations

from kvplan.families.common import attention, decoder_names, head_dim, num_layers
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DFlashDraftModel", "DFlash2DraftModel")

_SLIDING = "sliding_attention"
_WHY = ("layer_types, dflash_config", "model_executor/models/qwen3_dflash.py, DFlashQwen3Attention")


def windows(config: Config) -> list[int | None]:
    """Each layer's window: from ``layer_types``, or ``dflash_config.use_swa`` on every layer."""
    count = num_layers(config)
    dflash = config.section("dflash_config") or Config({}, f"{config.where}: dflash_config")
    types = None if config.get("layer_types") is None else config.texts("layer_types")
    any_sliding = types is not None and _SLIDING in types
    use_swa = dflash.boolean("use_swa", False)
    if types is None or (use_swa and not any_sliding):
        sliding = [use_swa] * count
    else:
        sliding = [t == _SLIDING for t in config.texts("layer_types", length=count)]
    if not any(sliding):
        return [None] * count
    size = dflash.optional_integer("swa_window_size") if "swa_window_size" in dflash else None
    size = size or config.integer("sliding_window")
    return [size if s else None for s in sliding]


def is_causal(config: Config, index: int) -> bool:
    """Whether a layer attends causally: ``is_causal``, then ``dflash_config.causal``, then sliding layers only."""
    dflash = config.section("dflash_config")
    for value in (config.get("is_causal"), None if dflash is None else dflash.get("causal")):
        if value is not None:
            return bool(value)
    types = config.get("layer_types")
    return bool(types) and config.texts("layer_types")[index] == _SLIDING


def has_sinks(config: Config) -> bool:
    """``dflash_config.attention_sink_bias``, else ``add_swa_attention_sink_bias``."""
    dflash = config.section("dflash_config")
    if dflash is not None and "attention_sink_bias" in dflash:
        return bool(dflash.get("attention_sink_bias"))
    return bool(config.get("add_swa_attention_sink_bias", False))


def check_convolution(config: Config) -> None:
    """KvplanError where DFlash2 lacks the sizes of its convolutions and its candidate selector."""
    dflash = config.section("dflash_config")
    if dflash is None:
        raise config.error("dflash_config", "is missing, and DFlash2 needs it")
    for key in ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"):
        dflash.integer(key)
    if config.integer("hidden_size") % dflash.integer("conv_group_size"):
        raise dflash.error("conv_group_size", f"must divide hidden_size ({config.integer('hidden_size')})")


def layers(model: Model) -> list[Layer]:
    config = model.config
    if model.architecture == "DFlash2DraftModel":
        check_convolution(config)
    template = attention(
        model,
        "",
        _WHY,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=head_dim(config),
        has_sink=has_sinks(config),
    )
    sizes = windows(config)
    names = decoder_names("model", len(sizes), start=model.start_layer)
    return [template._replace(name=name, sliding_window=size) for name, size in zip(names, sizes, strict=True)]
