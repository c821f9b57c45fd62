"""Falcon-H1: attention and a Mamba-2 state side by side in every layer (vLLM: model_executor/models/falcon_h1.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, head_dim, model_window, num_layers
from kvplan.families.registry import Traits
from kvplan.families.states import mamba2_layer
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("FalconH1ForCausalLM",)

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True)

_STATE = ("mamba_n_heads, mamba_d_head, mamba_d_state", "model_executor/models/falcon_h1.py, FalconH1SSMDecoderLayer")
_FULL = ("num_key_value_heads, head_dim", "model_executor/models/falcon_h1.py, FalconH1AttentionDecoderLayer")


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    count = num_layers(config)
    width = config.optional_integer("mamba_d_ssm")
    state = mamba2_layer(
        model,
        "",
        _STATE,
        intermediate_size=width or int(config.number("mamba_expand") * config.integer("hidden_size")),
        num_groups=config.integer("mamba_n_groups"),
        num_heads=config.integer("mamba_n_heads"),
        head_dim=config.integer("mamba_d_head"),
        state_size=config.integer("mamba_d_state"),
        conv_kernel=config.integer("mamba_d_conv"),
    )
    full = attention(
        model,
        "",
        _FULL,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=head_dim(config),
        sliding_window=model_window(model),
    )
    for i in range(count):
        yield full._replace(name=f"model.layers.{i}.attn")
        # The state has a number of its own, so that no two layers share one; its stage is the attention's.
        yield state._replace(name=f"model.{count + i}.mixer", stage_index=i)
