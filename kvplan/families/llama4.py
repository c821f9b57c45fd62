"""Llama 4: chunked local attention in the layers that rotate, full attention in those that do not.

vLLM: model_executor/models/llama4.py (Llama4Attention) and mllama4.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, model_window, nested, num_layers
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Llama4ForCausalLM", "Llama4ForConditionalGeneration")

_CHUNKED = ("no_rope_layers: 1, attention_chunk_size", "model_executor/models/llama4.py, Llama4Attention")
_FULL = ("no_rope_layers: 0", "model_executor/models/llama4.py, Llama4Attention")


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "Llama4ForConditionalGeneration")


def layers(model: Model) -> list[Layer]:
    if model.architecture == "Llama4ForConditionalGeneration":
        return nested(model, "Llama4ForCausalLM")
    return list(text_layers(model))


def text_layers(model: Model) -> Iterator[Layer]:
    config = model.config
    count = num_layers(config)
    chunk = config.optional_integer("attention_chunk_size", minimum=0) or None
    full = attention(
        model,
        "",
        _FULL,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=config.integer("head_dim"),
        sliding_window=model_window(model),
    )
    chunked = full._replace(why=_CHUNKED, attention_chunk_size=chunk)
    for i, rotates in enumerate(config.integers("no_rope_layers", length=count)):
        yield (chunked if rotates else full)._replace(name=f"model.layers.{i}.self_attn.attn")
