"""Mamba, Falcon-Mamba and Mamba-2: states in every layer and no attention (vLLM: models/mamba.py, models/mamba2.py)."""

from __future__ import annotations

from kvplan.families.common import num_layers
from kvplan.families.registry import Traits
from kvplan.families.states import mamba1_layer, mamba2_layer
from kvplan.layers import Layer, StateLayer
from kvplan.model import Model

ARCHITECTURES = ("MambaForCausalLM", "FalconMambaForCausalLM", "Mamba2ForCausalLM")

_WHY1 = ("intermediate_size, state_size, conv_kernel", "model_executor/models/mamba.py, MambaDecoderLayer")
_WHY2 = ("num_heads, head_dim, state_size", "model_executor/models/mamba2.py, Mamba2DecoderLayer")


def traits(architecture: str) -> Traits:
    return Traits(is_attention_free=True, supports_pp=architecture != "Mamba2ForCausalLM")


def _state(model: Model) -> StateLayer:
    config = model.config
    if model.architecture != "Mamba2ForCausalLM":
        return mamba1_layer(
            model,
            "",
            _WHY1,
            intermediate_size=config.integer("intermediate_size"),
            state_size=config.integer("state_size"),
            conv_kernel=config.integer("conv_kernel"),
        )
    width = config.optional_integer("intermediate_size") if "intermediate_size" in config else None
    return mamba2_layer(
        model,
        "",
        _WHY2,
        intermediate_size=width or config.integer("expand") * config.integer("hidden_size"),
        num_groups=config.integer("n_groups"),
        num_heads=config.integer("num_heads"),
        head_dim=config.integer("head_dim"),
        state_size=config.integer("state_size"),
        conv_kernel=config.integer("conv_kernel"),
    )


def layers(model: Model) -> list[Layer]:
    state = _state(model)
    return [state._replace(name=f"backbone.layers.{i}.mixer") for i in range(num_layers(model.config))]
