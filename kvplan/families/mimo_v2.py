"""MiMo-V2: sliding layers with heads of their own next to full layers, values narrower than keys.

vLLM: model_executor/models/mimo_v2.py (MiMoV2FlashDecoderLayer) and mimo_v2_omni.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, check_split_tower, check_tower, num_layers
from kvplan.families.registry import Traits
from kvplan.layers import AttentionLayer, Layer
from kvplan.model import Model

ARCHITECTURES = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM")

_FULL = ("hybrid_layer_pattern: 0", "model_executor/models/mimo_v2.py, MiMoV2FlashDecoderLayer")
_TOWER_KV_HEADS = 8
_TOWER = {"num_heads": 32, "intermediate_size": 4608}
"""Defaults of the vision config."""
_SLIDING = ("hybrid_layer_pattern: 1", "model_executor/models/mimo_v2.py, MiMoV2FlashDecoderLayer")


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "MiMoV2OmniForCausalLM")


def _layer(model: Model, swa: str, window: int | None, has_sink: bool) -> AttentionLayer:
    """A layer of one kind: the sliding ones read their heads from the keys that begin with ``swa_``."""
    config = model.config
    size = config.integer(f"{swa}head_dim")
    size_v = config.optional_integer(f"{swa}v_head_dim") or size
    return attention(
        model,
        "",
        _SLIDING if swa else _FULL,
        num_heads=config.integer(f"{swa}num_attention_heads"),
        num_kv_heads=config.integer(f"{swa}num_key_value_heads"),
        head_size=size,
        head_size_v=size_v,
        sliding_window=window,
        has_sink=has_sink,
        backend="DIFFKV" if size_v != size else None,
    )


def sliding_layer(model: Model) -> AttentionLayer:
    """The sliding layer, which the MTP module uses too."""
    config = model.config
    window = config.integer("sliding_window_size", minimum=-1)
    return _layer(model, "swa_", window if window > -1 else None, config.boolean("add_swa_attention_sink_bias", False))


def check_vision_tower(model: Model) -> None:
    """Refused where the KV heads of MiMo-V2-Omni's vision tower cannot be split."""
    vision = model.root.section("vision_config")
    heads = None if vision is None else vision.optional_integer("num_key_value_heads")
    check_split_tower(model, "num_key_value_heads", heads or _TOWER_KV_HEADS)
    check_tower(model, _TOWER)


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    if model.architecture == "MiMoV2OmniForCausalLM":
        check_vision_tower(model)
    pattern = config.integers("hybrid_layer_pattern", length=num_layers(config))
    prefix = "language_model.model" if model.architecture == "MiMoV2OmniForCausalLM" else "model"
    full, sliding = _layer(model, "", None, False), sliding_layer(model)
    for i, kind in enumerate(pattern):
        yield (sliding if kind == 1 else full)._replace(name=f"{prefix}.layers.{i}.self_attn.attn")
