"""DFlash and what is built on it: a few attention layers that draft a whole block at once, numbered after the target's.

vLLM: model_executor/models/qwen3_dflash.py; qwen3_dflash2.py and lilicorr.py add convolutions and heads that cache
nothing, as do qwen3_dspark.py and qwen3_xpress.py. Muse Glimmer's assistant is a DFlash drafter.
"""

from __future__ import annotations

from kvplan.families.common import attention, decoder_names, head_dim, model_window, num_layers
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "DFlashDraftModel",
    "DFlash2DraftModel",
    "LiLiCorrDraftModel",
    "MuseGlimmerAssistantModel",
    "DFlashMuseGlimmerAssistantModel",
    "Qwen3DSparkModel",
    "Qwen3OmniDSparkModel",
    "Qwen3XPressModel",
    "DFlashQwen3XPressModel",
)

_SLIDING = "sliding_attention"
_WHY = ("layer_types, dflash_config", "model_executor/models/qwen3_dflash.py, DFlashQwen3Attention")


def section(config: Config) -> Config:
    """``dflash_config``, which may be missing."""
    return config.section("dflash_config") or Config({}, f"{config.where}: dflash_config")


def windows(config: Config) -> list[int | None]:
    """Each layer's window: from ``layer_types``, or ``dflash_config.use_swa`` on every layer."""
    count = num_layers(config)
    dflash = section(config)
    use_swa = dflash.truthy("use_swa")
    types = None if config.get("layer_types") is None else config.texts("layer_types", length=count)
    if types is None or (use_swa and _SLIDING not in types):
        sliding = [use_swa] * count
    else:
        sliding = [kind == _SLIDING for kind in types]
    if not any(sliding):
        return [None] * count
    size = dflash.integer("swa_window_size") if "swa_window_size" in dflash else config.integer("sliding_window")
    return [size if slides else None for slides in sliding]


def has_sinks(config: Config) -> bool:
    """``dflash_config.attention_sink_bias``, else ``add_swa_attention_sink_bias``."""
    dflash = section(config)
    if "attention_sink_bias" in dflash:
        return dflash.truthy("attention_sink_bias")
    return config.truthy("add_swa_attention_sink_bias")


def layers(model: Model) -> list[Layer]:
    config = model.config
    template = attention(
        model,
        "",
        _WHY,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=head_dim(config),
        has_sink=has_sinks(config),
    )
    first = model.layers_on_last_stage if model.architecture.endswith("XPressModel") else model.start_layer
    sizes = [size or model_window(model) for size in windows(config)]
    names = decoder_names("model", len(sizes), start=first)
    return [template._replace(name=name, sliding_window=size) for name, size in zip(names, sizes, strict=True)]
