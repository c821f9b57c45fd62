"""Falcon: one KV head, a few, or as many as query heads, by the config's generation.

vLLM: model_executor/models/falcon.py (FalconAttention).
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import attention, divided_head_dim, num_layers
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("FalconForCausalLM",)

_WHY = ("new_decoder_architecture, multi_query, num_kv_heads", "model_executor/models/falcon.py, FalconAttention")


def kv_heads(config: Config) -> int:
    """KV heads of the whole model: the new decoder has its own count, the old one a single head or all of them."""
    if config.truthy("new_decoder_architecture"):
        return config.integer("num_kv_heads")
    return 1 if config.truthy("multi_query") else config.integer("num_attention_heads")


def layers(model: Model) -> list[Layer]:
    """The layers are built without the cache config: no model-level window, and the KV dtype is always the model's."""
    config = model.config
    heads, size = config.integer("num_attention_heads"), divided_head_dim(config)
    if size * heads != config.integer("hidden_size"):
        raise Refused(f"{config.where}: hidden_size is no multiple of the {heads} attention heads; correct it.")
    quantization = model.root.section("quantization_config")
    if quantization is not None and quantization.get("kv_cache_scheme") is not None:
        raise Refused(f"{model.root.where}: quantization_config.kv_cache_scheme is not planned exactly for Falcon.")
    template = attention(
        model,
        "",
        _WHY,
        num_heads=heads,
        num_kv_heads=kv_heads(config),
        head_size=size,
        alibi=config.truthy("alibi"),
        cache_dtype="auto",
    )
    return [template._replace(name=f"transformer.h.{i}.self_attention.attn") for i in range(num_layers(config))]
