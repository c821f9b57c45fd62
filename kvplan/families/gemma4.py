"""Gemma 4: sliding and full layers with heads of their own, and last layers that read an earlier layer's cache.

vLLM: model_executor/models/gemma4.py (Gemma4DecoderLayer, Gemma4Attention), gemma4_mm.py and gemma4_unified.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.errors import Refused
from kvplan.families.common import attention, nested, num_layers, windows_by_layer_type
from kvplan.families.registry import Traits
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration")

_SLIDING = ("layer_types: sliding_attention", "model_executor/models/gemma4.py, Gemma4DecoderLayer")
_FULL = ("global_head_dim, num_global_key_value_heads", "model_executor/models/gemma4.py, Gemma4DecoderLayer")
_SHARED = ("num_kv_shared_layers", "model_executor/models/gemma4.py, Gemma4Attention")


def traits(architecture: str) -> Traits:
    multimodal = architecture.endswith("ForConditionalGeneration")
    return Traits(is_multimodal=multimodal, multimodal_prefix_lm=multimodal)


def layers(model: Model) -> list[Layer]:
    if model.architecture.endswith("ForConditionalGeneration"):
        if model.root.section("vision_config") is None:
            raise model.root.error("vision_config", "is missing, and vLLM cannot build the model without it")
        return nested(model, "Gemma4ForCausalLM")
    return list(text_layers(model))


def shared_from(config: Config, kinds: list[str]) -> int:
    """Index of the first layer that caches nothing. Refused where a later layer has no earlier one of its kind."""
    count = len(kinds)
    first = count - config.integer("num_kv_shared_layers", 0, minimum=0, maximum=count)
    for kind in kinds[first:]:
        if kind not in kinds[:first]:
            raise Refused(
                f"{config.where}: num_kv_shared_layers {count - first} leaves no {kind} layer whose cache the others "
                "of that kind could read; lower it."
            )
    return first


def own_fields(config: Config) -> dict[int, Config]:
    """The heads that single layers have of their own, by layer: derived by the config class, or from the file.

    Refused where a layer has another field of its own: the class reads those of the whole model.
    """
    found = config.layer_fields()
    for fields in found.values():
        for key in fields.data:
            if key not in ("head_dim", "num_key_value_heads"):
                raise Refused(f"{fields.where}: {key} differs by layer, which vLLM's Gemma 4 cannot read; remove it.")
    return found


def text_layers(model: Model) -> Iterator[Layer]:
    config = model.config
    count = num_layers(config)
    kinds = config.texts("layer_types", length=count)
    windows = windows_by_layer_type(config, count)
    own = own_fields(config)
    first_shared = shared_from(config, kinds)
    heads = config.integer("num_attention_heads")
    last = {kind: i for i, kind in enumerate(kinds[:first_shared])}
    for i, (kind, window) in enumerate(zip(kinds, windows, strict=True)):
        fields = own.get(i, config)
        layer = attention(
            model,
            f"model.layers.{i}.self_attn.attn",
            _SLIDING if kind == "sliding_attention" else _FULL,
            num_heads=heads,
            num_kv_heads=fields.integer("num_key_value_heads", config.integer("num_key_value_heads")),
            head_size=fields.integer("head_dim", config.integer("head_dim")),
            sliding_window=window,
        )
        if i >= first_shared:
            layer = layer._replace(why=_SHARED, kv_sharing_target=f"model.layers.{last[kind]}.self_attn.attn")
        yield layer
