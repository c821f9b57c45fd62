"""Jamba: Mamba-1 layers with an attention layer every few (vLLM: model_executor/models/jamba.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import divided_attention, num_layers
from kvplan.families.registry import Traits
from kvplan.families.states import mamba1_layer
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("JambaForCausalLM",)

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True)

_STATE = ("layers_block_type: mamba", "model_executor/models/jamba.py, JambaMambaDecoderLayer")
_FULL = ("layers_block_type: attention", "model_executor/models/jamba.py, JambaAttentionDecoderLayer")


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    state = mamba1_layer(
        model,
        "",
        _STATE,
        intermediate_size=config.integer("mamba_expand") * config.integer("hidden_size"),
        state_size=config.integer("mamba_d_state"),
        conv_kernel=config.integer("mamba_d_conv"),
    )
    full = divided_attention(model, _FULL)
    kinds = config.texts("layers_block_type", length=num_layers(config), allowed=("mamba", "attention"))
    for i, kind in enumerate(kinds):
        if kind == "mamba":
            yield state._replace(name=f"model.layers.{i}.mixer")
        else:
            yield full._replace(name=f"model.layers.{i}.attn")
