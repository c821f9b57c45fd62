"""Gemma 3n: four sliding layers to one full layer, and the last layers read the cache of an earlier one.

vLLM: model_executor/models/gemma3n.py (Gemma3nAttention) and gemma3n_mm.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.errors import Refused
from kvplan.families.common import attention, nested, num_layers, windows_by_layer_type
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration")

_OWN = ("layer_types, sliding_window", "model_executor/models/gemma3n.py, Gemma3nAttention")
_SHARED = ("num_kv_shared_layers", "model_executor/models/gemma3n.py, Gemma3nAttention")


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "Gemma3nForConditionalGeneration", supports_pp=False)


def layers(model: Model) -> list[Layer]:
    if model.architecture == "Gemma3nForConditionalGeneration":
        return nested(model, "Gemma3nForCausalLM")
    return list(text_layers(model))


def text_layers(model: Model) -> Iterator[Layer]:
    """A shared sliding layer reads the layer two before the first shared one, a shared full layer the one before."""
    config = model.config
    count = num_layers(config)
    first_shared = count - config.integer("num_kv_shared_layers", minimum=0, maximum=count)
    if first_shared < count and first_shared < 2:
        raise Refused(
            f"{config.where}: num_kv_shared_layers {count - first_shared} of {count} layers leaves fewer than the two "
            "layers whose caches the others read; lower it."
        )
    template = attention(
        model,
        "",
        _OWN,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=config.integer("head_dim"),
    )
    config.sequence("layer_types")
    for i, window in enumerate(windows_by_layer_type(config, count)):
        layer = template._replace(name=f"model.layers.{i}.self_attn.attn", sliding_window=window)
        if i >= first_shared:
            target = first_shared - (1 if window is None else 2)
            layer = layer._replace(why=_SHARED, kv_sharing_target=f"model.layers.{target}.self_attn.attn")
        yield layer
