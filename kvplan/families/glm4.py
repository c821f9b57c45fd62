"""GLM-4 and GLM-4-MoE: grouped-query attention in every layer (vLLM: model_executor/models/glm4.py, glm4_moe.py)."""

from __future__ import annotations

from kvplan.families.common import check_routed, require, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Glm4ForCausalLM", "Glm4MoeForCausalLM")

_WHY = ("num_key_value_heads, head_dim", "model_executor/models/glm4.py, Glm4Attention")
_MOE = ("num_key_value_heads, head_dim", "model_executor/models/glm4_moe.py, Glm4MoeAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    if model.architecture == "Glm4MoeForCausalLM":
        require(config, "head_dim")
        dense = config.integer("first_k_dense_replace", minimum=0)
        has_experts = config.get("n_routed_experts") is not None
        check_routed(model, lambda i: has_experts and i >= dense)
    why = _WHY if model.architecture == "Glm4ForCausalLM" else _MOE
    return uniform_gqa(model, why, num_kv_heads=config.integer("num_key_value_heads"))
