"""Hy3: grouped-query attention in every layer.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["HYV3ForCausalLM"],
    "model_type": "hy_v3",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "first_k_dense_replace": 1,
    "expert_hidden_dim": 1536,
    "route_norm": True,
}
CONFIGS = (CONFIG,)


def test_every_layer_is_alike(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 80, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 80, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]
