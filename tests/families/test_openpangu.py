"""openPangu Ultra MoE: latent attention in every layer, and experts in every pipeline stage.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import rows

from kvplan.errors import Refused

CONFIG: dict[str, Any] = {
    "architectures": ["PanguUltraMoEForCausalLM"],
    "model_type": "pangu_ultra_moe",
    "dtype": "bfloat16",
    "hidden_size": 7680,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 6,
    "first_k_dense_replace": 3,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "router_enable_expert_bias": True,
    "sandwich_norm": True,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "max_position_embeddings": 131072,
    "rope_theta": 25600000,
    "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False,
    "vocab_size": 153600,
}
CONFIGS = (CONFIG,)


def test_latent_layers(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200", tensor_parallel_size=2) == [
        ("mla", 6, "model.layers.0.self_attn.attn", 1, 576, 16, 18432, None)
    ]


def test_a_pipeline_stage_without_experts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="first_k_dense_replace 3 leaves the first 3 layers"):
        rows(tmp_path, CONFIG, "H200", pipeline_parallel_size=2)


def test_other_attention_than_latent_is_refused(tmp_path: Path) -> None:
    without = {key: value for key, value in CONFIG.items() if key != "v_head_dim"}
    with pytest.raises(Refused, match="v_head_dim is missing"):
        rows(tmp_path, without, "H200")
