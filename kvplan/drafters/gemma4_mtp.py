"""Gemma 4's assistants: layers that only ask, and read the keys and values of the target's last layer of their kind.

vLLM: model_executor/models/gemma4_mtp.py; v1/worker/gpu/spec_decode/gemma4/speculator.py says whose cache they read.
"""

from __future__ import annotations

from kvplan.drafters.common import target_config
from kvplan.families.common import attention, num_layers, windows_by_layer_type
from kvplan.families.gemma4 import own_fields
from kvplan.hf import Config
from kvplan.layers import AttentionLayer, Why
from kvplan.model import Model

ARCHITECTURES = ("Gemma4MTPModel",)

_WHY = ("layer_types", "v1/worker/gpu/spec_decode/gemma4/speculator.py, Gemma4Speculator")


def own_layers(model: Model, prefix: str, why: Why) -> list[AttentionLayer]:
    """The drafter's layers, numbered from 0, with the heads that each has of its own."""
    config = model.config
    count = num_layers(config)
    config.texts("layer_types", length=count)
    own = own_fields(config)
    return [
        attention(
            model,
            f"{prefix}.layers.{i}.self_attn.attn",
            why,
            num_heads=config.integer("num_attention_heads"),
            num_kv_heads=own.get(i, config).integer("num_key_value_heads", config.integer("num_key_value_heads")),
            head_size=own.get(i, config).integer("head_dim", config.integer("head_dim")),
            sliding_window=window,
        )
        for i, window in enumerate(windows_by_layer_type(config, count))
    ]


def last_of_kind(target: Config) -> dict[str, int]:
    """For each kind of layer the target's last one that has a cache of its own."""
    kinds = target.texts("layer_types", length=num_layers(target))
    shared = target.integer("num_kv_shared_layers", 0, minimum=0, maximum=len(kinds))
    return {kind: i for i, kind in enumerate(kinds[: len(kinds) - shared])}


def layers(model: Model) -> list[AttentionLayer]:
    """A layer of a kind that the target lacks keeps a cache of its own."""
    target = model.target
    prefix = "model.layers" if target is None or target.config is target.root else "language_model.model.layers"
    sources = last_of_kind(target_config(model))
    kinds = model.config.texts("layer_types")
    return [
        layer._replace(kv_sharing_target=f"{prefix}.{sources[kind]}.self_attn.attn") if kind in sources else layer
        for layer, kind in zip(own_layers(model, "draft_model", _WHY), kinds, strict=True)
    ]
