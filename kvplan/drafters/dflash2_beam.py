"""DFlash2 as Beam's drafters have it: sliding layers that draft a block at once, numbered after the target's.

vLLM: models/beam/nvidia/dflash2.py.
"""

from __future__ import annotations

from kvplan.drafters.dflash import section
from kvplan.families.common import attention, decoder_names, num_layers
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DFlash2BeamDraftModel",)

_WHY = ("sliding_window, dflash_config", "models/beam/nvidia/dflash2.py, DFlash2BeamAttention")
_HEAD = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
"""Fields of dflash_config that the convolutions and the candidate selector read without a default."""


def check(config: Config, count: int) -> None:
    """KvplanError where the drafting head lacks a field, or where a layer is no sliding one that looks both ways."""
    head = section(config)
    for key in _HEAD:
        head.integer(key)
    head.sequence("target_layer_ids")
    head.number("final_logit_softcapping")
    if config.integer("hidden_size") % head.integer("conv_group_size"):
        raise head.error("conv_group_size", f"must divide hidden_size ({config.integer('hidden_size')})")
    if "is_causal" not in config or config.truthy("is_causal"):
        raise config.error("is_causal", "must be false for vLLM's Beam drafter")
    config.texts("layer_types", length=count, allowed=("sliding_attention",))


def layers(model: Model) -> list[Layer]:
    config = model.config
    count = num_layers(config)
    check(config, count)
    template = attention(
        model,
        "",
        _WHY,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=config.integer("head_dim"),
        sliding_window=config.integer("sliding_window"),
    )
    return [template._replace(name=name) for name in decoder_names("model", count, start=model.start_layer)]
