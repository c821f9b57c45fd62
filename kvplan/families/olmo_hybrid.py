"""OLMo hybrid: gated delta net layers with full attention every few, without prefill checkpoints.

vLLM: model_executor/models/olmo_hybrid.py and model_executor/layers/mamba/gdn/olmo_gdn_linear_attn.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import divided_attention, num_layers
from kvplan.families.registry import Traits
from kvplan.families.states import gated_delta_net
from kvplan.layers import Layer, StateLayer
from kvplan.model import Model

ARCHITECTURES = ("OlmoHybridForCausalLM",)

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True)

_LINEAR = ("layer_types: linear_attention", "model_executor/layers/mamba/gdn/olmo_gdn_linear_attn.py")
_FULL = ("layer_types: full_attention", "model_executor/models/olmo_hybrid.py, OlmoHybridAttention")


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    shapes, dtypes = gated_delta_net(
        model,
        num_k_heads=config.integer("linear_num_key_heads"),
        num_v_heads=config.integer("linear_num_value_heads"),
        head_k_dim=config.integer("linear_key_head_dim"),
        head_v_dim=config.integer("linear_value_head_dim"),
        conv_kernel=config.integer("linear_conv_kernel_dim"),
    )
    state = StateLayer("", "gdn_attention", shapes, dtypes, _LINEAR, "GDN_ATTN")
    full = divided_attention(model, _FULL)
    kinds = config.texts("layer_types", length=num_layers(config), allowed=("linear_attention", "full_attention"))
    for i, kind in enumerate(kinds):
        if kind == "linear_attention":
            yield state._replace(name=f"model.layers.{i}.linear_attn")
        else:
            yield full._replace(name=f"model.layers.{i}.self_attn.attn")
