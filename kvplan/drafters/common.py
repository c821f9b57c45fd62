"""What drafters share: where their layers' numbers begin, and the decoder layers of built-in prediction modules."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.errors import Refused
from kvplan.families.common import attention, divided_head_dim, head_dim, model_window
from kvplan.hf import Config
from kvplan.layers import AttentionLayer, Why
from kvplan.model import Model

MAX_MODULES = 1024
"""More multi-token prediction modules than any checkpoint has: a config is untrusted."""


def target_config(model: Model) -> Config:
    """The target's text config, which most classes of built-in drafters read (vLLM: `vllm_config.model_config`)."""
    return model.config if model.target is None else model.target.config


def target_of(model: Model, architecture: str) -> Model:
    """The target, whose text model the drafter's class reads. Refused where it is another class than that."""
    if model.target is None or model.target.architecture != architecture:
        raise Refused(
            f"{model.root.where}: {model.architecture} drafts for {architecture} only; choose another drafter."
        )
    return model.target


def num_modules(config: Config, key: str = "num_nextn_predict_layers") -> int:
    """The number of prediction modules that the config names."""
    return config.integer(key, maximum=MAX_MODULES)


def num_modules_or_one(config: Config, key: str = "num_nextn_predict_layers") -> int:
    """The same where the class takes a missing key for one module."""
    return num_modules(config, key) if key in config else 1


def after_target(config: Config, prefix: str = "model.layers", suffix: str = "self_attn.attn") -> list[str]:
    """Names of the modules of ``config``, numbered on from its decoder layers."""
    first = config.integer("num_hidden_layers", minimum=0)
    return [f"{prefix}.{i}.{suffix}" for i in range(first, first + num_modules(config))]


def require_causal(config: Config) -> None:
    """Refused where the class would run the layers as an encoder, which caches nothing."""
    if not config.truthy("is_causal", True):
        raise Refused(f"{config.where}: is_causal is false, so vLLM runs the layers as an encoder that caches nothing.")


def on_last_stage(model: Model) -> Model:
    """The drafter with its layers numbered on from those of the last pipeline stage (`get_num_layers`)."""
    return model._replace(start_layer=model.layers_on_last_stage)


def grouped_query(
    model: Model, config: Config, names: Iterable[str], why: Why, *, divided: bool = False
) -> list[AttentionLayer]:
    """Layers with the heads that ``config`` names and the window that vLLM gives a layer without one.

    ``divided``: the class reads no head_dim, so a head is hidden_size // heads.
    """
    heads = config.integer("num_attention_heads")
    template = attention(
        model,
        "",
        why,
        num_heads=heads,
        num_kv_heads=config.integer("num_key_value_heads", heads),
        head_size=divided_head_dim(config) if divided else head_dim(config),
        sliding_window=model_window(model),
    )
    return [template._replace(name=name) for name in names]
