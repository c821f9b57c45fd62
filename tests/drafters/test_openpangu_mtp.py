"""MTP of openPangu: latent layers numbered after the target's.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drafter_case import drafted

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


def test_three_modules(tmp_path: Path) -> None:
    target = {**CONFIG, "num_nextn_predict_layers": 3}
    assert drafted(tmp_path, target, None, "mtp", 6, tensor_parallel_size=2) == [
        ("mla", 3, "model.layers.6.self_attn.attn", 1, 576, 16, 18432, None, "FLASH_ATTN_MLA")
    ]
