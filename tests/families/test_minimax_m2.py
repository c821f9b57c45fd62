"""MiniMax-M2: grouped-query attention in every layer.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "model_type": "minimax_m2",
    "dtype": "bfloat16",
    "hidden_size": 3072,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rotary_dim": 64,
    "scoring_func": "sigmoid",
    "max_position_embeddings": 196608,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "use_routing_bias": True,
}
CONFIGS = (CONFIG,)


def test_every_layer_is_alike(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 62, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 62, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]
