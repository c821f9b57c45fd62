"""Qwen2, Qwen2-MoE, Qwen3, Qwen3-MoE and MiMo, which is a Qwen2: grouped-query attention in every layer.

vLLM: model_executor/models/qwen2.py, qwen2_moe.py, qwen3.py, qwen3_moe.py, mimo.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import (
    check_routed,
    divided_head_dim,
    is_interleaved,
    require_causal,
    require_no_dual_chunks,
    uniform_gqa,
)
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "MiMoForCausalLM",
)

_HEAD_DIM = ("num_key_value_heads, head_dim", "model_executor/models/qwen3.py, Qwen3Attention")
_NO_HEAD_DIM = ("num_key_value_heads, hidden_size", "model_executor/models/qwen2.py, Qwen2Attention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    require_no_dual_chunks(config)
    if is_interleaved(config) and config.get("max_window_layers") != config.get("num_hidden_layers"):
        raise Refused(
            f"{config.where}: layer_types mixes sliding and full attention, which vLLM takes for "
            f"{model.architecture} only where max_window_layers equals num_hidden_layers; "
            "set use_sliding_window to false."
        )
    if "Moe" not in model.architecture:
        require_causal(config)
    if model.architecture == "Qwen3MoeForCausalLM":
        every, dense = config.integer("decoder_sparse_step", 1), config.sequence("mlp_only_layers", ())
        has_experts = config.integer("num_experts", 128, minimum=0) > 0
        check_routed(model, lambda i: has_experts and i not in dense and (i + 1) % every == 0)
    if model.architecture.startswith("Qwen3"):
        return uniform_gqa(model, _HEAD_DIM)
    return uniform_gqa(model, _NO_HEAD_DIM, head_size=divided_head_dim(config))
