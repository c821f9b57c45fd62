"""Granite 4 hybrids: Mamba-2 layers with a few attention layers (vLLM: model_executor/models/granitemoehybrid.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import divided_attention, num_layers
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
    state = mamba2_layer(
        model,
        "",
        _STATE,
        intermediate_size=config.integer("mamba_expand") * config.integer("hidden_size"),
        num_groups=config.integer("mamba_n_groups"),
        num_heads=config.integer("mamba_n_heads"),
        head_dim=config.integer("mamba_d_head"),
        state_size=config.integer("mamba_d_state"),
        conv_kernel=config.integer("mamba_d_conv"),
    )
    full = divided_attention(model, _FULL)
    kinds = config.texts("layer_types", length=num_layers(config), allowed=("linear_attention", "full_attention"))
    for i, kind in enumerate(kinds):
        if kind == "linear_attention":
            yield state._replace(name=f"model.layers.{i}.mixer")
        else:
            yield full._replace(name=f"model.layers.{i}.self_attn.attn")
