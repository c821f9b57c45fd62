"""Nemotron-H: Mamba-2, attention, MLP and expert layers in an order of their own.

vLLM: model_executor/models/nemotron_h.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, head_dim
from kvplan.families.registry import Traits
from kvplan.families.states import mamba2_layer
from kvplan.layers import AttentionLayer, Layer, StateLayer
from kvplan.model import Model

ARCHITECTURES = ("NemotronHForCausalLM",)

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True)

_KINDS = ("linear_attention", "full_attention", "moe", "mlp")
_STATE = (
    "layers_block_type, or M in hybrid_override_pattern",
    "model_executor/models/nemotron_h.py, NemotronHMambaDecoderLayer",
)
_FULL = (
    "layers_block_type, or * in hybrid_override_pattern",
    "model_executor/models/nemotron_h.py, NemotronHAttention",
)


def state(model: Model, name: str = "") -> StateLayer:
    """The Mamba-2 layer."""
    config = model.config
    heads, size = config.integer("mamba_num_heads"), config.integer("mamba_head_dim")
    return mamba2_layer(
        model,
        name,
        _STATE,
        intermediate_size=heads * size,
        num_groups=config.integer("n_groups"),
        num_heads=heads,
        head_dim=size,
        state_size=config.integer("ssm_state_size"),
        conv_kernel=config.integer("conv_kernel"),
    )


def full_attention(model: Model, name: str = "") -> AttentionLayer:
    """The attention layer, which the MTP module uses too. A window is for all of them, whatever else there is."""
    config = model.config
    return attention(
        model,
        name,
        _FULL,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=head_dim(config),
        sliding_window=config.optional_integer("sliding_window", minimum=0) or None,
    )


def layers(model: Model) -> Iterator[Layer]:
    kinds = model.config.texts("layers_block_type", allowed=_KINDS)
    mamba = state(model) if "linear_attention" in kinds else None
    full = full_attention(model) if "full_attention" in kinds else None
    for i, kind in enumerate(kinds):
        if kind == "linear_attention" and mamba is not None:
            yield mamba._replace(name=f"model.layers.{i}.mixer")
        elif kind == "full_attention" and full is not None:
            yield full._replace(name=f"model.layers.{i}.mixer.attn")
