"""GLM-4 and GLM-4-MoE: grouped-query attention in every layer.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

DENSE = {
    "architectures": ["Glm4ForCausalLM"],
    "model_type": "glm4",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 32768,
}
MOE = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "dtype": "bfloat16",
    "hidden_size": 5120,
    "num_hidden_layers": 92,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 202752,
    "use_qk_norm": True,
}
CONFIGS = (
    DENSE,
    MOE,
)


def test_glm_4(tmp_path: Path) -> None:
    assert rows(tmp_path, DENSE, "H200") == [
        ("full_attention", 40, "model.layers.0.self_attn.attn", 2, 128, 16, 16384, None)
    ]


def test_glm_4_moe_on_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, MOE, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 92, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]
