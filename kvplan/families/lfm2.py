"""LFM2 and LFM2-MoE: short convolutions with attention every few layers.

vLLM: model_executor/models/lfm2.py and lfm2_moe.py; the state is model_executor/layers/mamba/short_conv.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import check_routed, divided_attention, num_layers, require
from kvplan.families.registry import Traits
from kvplan.families.states import oriented, short_conv
from kvplan.layers import Layer, StateLayer
from kvplan.model import Model

ARCHITECTURES = ("Lfm2ForCausalLM", "Lfm2MoeForCausalLM")

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True)

_CONV = ("layer_types: conv", "model_executor/models/lfm2.py, Lfm2ShortConvDecoderLayer")
_FULL = ("layer_types: full_attention", "model_executor/models/lfm2.py, Lfm2Attention")


def _state(model: Model) -> StateLayer:
    config = model.config
    key = "conv_dim" if "conv_dim" in config else "hidden_size"
    channels, kernel = config.integer(key), config.integer("conv_L_cache", minimum=2)
    shapes, dtypes = short_conv(model, channels=channels, conv_kernel=kernel)
    # The class reports the state without the columns of drafted tokens.
    reported = (oriented(model, channels // model.tensor_parallel_size, kernel - 1),)
    return StateLayer("", "short_conv", shapes, dtypes, _CONV, "SHORT_CONV_ATTN", reported_shapes=reported)


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    if model.architecture == "Lfm2ForCausalLM":
        require(config, "block_dim", "conv_dim")
    else:
        dense = config.integer("num_dense_layers", minimum=0)
        check_routed(model, lambda i: i >= dense)
    state = _state(model)
    full = divided_attention(model, _FULL)
    for i, kind in enumerate(config.texts("layer_types", length=num_layers(config))):
        if kind == "full_attention":
            yield full._replace(name=f"model.layers.{i}.self_attn.attn")
        else:
            yield state._replace(name=f"model.layers.{i}.short_conv")
