"""DFlash and what is built on it: a few attention layers that draft a whole block at once, numbered after the target's.

vLLM: model_executor/models/qwen3_dflash.py; qwen3_dflash2.py and lilicorr.py add convolutions and heads that cache
nothing, as do qwen3_dspark.py and qwen3_xpress.py. Muse Glimmer's assistant is a DFlash drafter.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import attention, decoder_names, head_dim, model_window, num_layers, require
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
_DFLASH2 = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
"""Fields of dflash_config that DFlash2's convolutions and candidate selector read without a default."""
_LILICORR = tuple(
    f"lilicorr_{key}"
    for key in (
        "hidden_size",
        "candidate_topk",
        "num_heads",
        "mlp_ratio",
        "factor_dim",
        "vector_eps",
        "logit_scale",
        "num_layers",
    )
)
"""Fields of dflash_config that the LiLiCorr head reads without a default."""
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


def check_heads(model: Model) -> None:
    """KvplanError where the drafting head lacks a field, or has one that its class refuses."""
    config = model.config
    if model.architecture.endswith("DSparkModel"):
        if "markov_rank" not in config and "markov_rank" in section(config):
            raise config.error(
                "dflash_config",
                "holds markov_rank, which vLLM 0.33.0 reads beside it, so vLLM itself fails on this drafter as it is; "
                "use another one, or a copy of its files whose config.json has markov_rank beside dflash_config",
            )
        config.integer("markov_rank")
    if model.architecture == "DFlash2DraftModel":
        head = section(config)
        for key in _DFLASH2:
            head.integer(key)
        if config.integer("hidden_size") % head.integer("conv_group_size"):
            raise head.error("conv_group_size", f"must divide hidden_size ({config.integer('hidden_size')})")
    if model.architecture == "LiLiCorrDraftModel":
        head = section(config)
        require(head, *_LILICORR)
        candidates = head.integer("lilicorr_candidate_topk", maximum=16)
        if candidates & (candidates - 1):
            raise head.error("lilicorr_candidate_topk", f"must be a power of two, got {candidates}")
        if not head.truthy("lilicorr_enabled", True):
            raise head.error("lilicorr_enabled", "is false, and vLLM's LiLiCorr drafter needs it")
        check_block(model, head.integer("block_size", config.integer("block_size", 0, minimum=0), minimum=0))


def check_block(model: Model, block: int) -> None:
    """Refused where more tokens are to be drafted than a block holds beside its anchor."""
    speculative = model.engine.speculative
    if speculative is not None and speculative.num_speculative_tokens >= block:
        raise Refused(
            f"--speculative-config num_speculative_tokens {speculative.num_speculative_tokens}: {model.config.where} "
            f"drafts blocks of {block} tokens with their anchor; use less."
        )


def layers(model: Model) -> list[Layer]:
    config = model.config
    check_heads(model)
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
