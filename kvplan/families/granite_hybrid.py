"""Granite 4 hybrids: Mamba-2 layers with a few attention layers (vLLM: model_executor/models/granitemoehybrid.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, model_window, num_layers
from kvplan.families.registry import Traits
from kvplan.families.states import mamba2_layer
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("GraniteMoeHybridForCausalLM",)

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True)

_FILE = "model_executor/models/granitemoehybrid.py"
_STATE = ("layer_types: linear_attention", f"{_FILE}, GraniteMoeHybridMambaDecoderLayer")
_FULL = ("layer_types: full_attention", f"{_FILE}, GraniteMoeHybridAttention")


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    heads, hidden = config.integer("num_attention_heads"), config.integer("hidden_size")
    state = mamba2_layer(
        model,
        "",
        _STATE,
        intermediate_size=config.integer("mamba_expand") * hidden,
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
        num_heads=heads,
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=hidden // heads,
        sliding_window=model_window(model),
    )
    kinds = config.texts("layer_types", length=num_layers(config), allowed=("linear_attention", "full_attention"))
    for i, kind in enumerate(kinds):
        if kind == "linear_attention":
            yield state._replace(name=f"model.layers.{i}.mixer")
        else:
            yield full._replace(name=f"model.layers.{i}.self_attn.attn")
