"""Laguna: query heads of their own in every layer leave the KV heads alone.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["LagunaForCausalLM"],
    "model_type": "laguna",
    "dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 48,
    "num_attention_heads_per_layer": [48, 72, 72, 72] * 2,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": 512,
    "layer_types": ["full_attention", *["sliding_attention"] * 3] * 2,
    "max_position_embeddings": 131072,
}
CONFIGS = (CONFIG,)


def test_three_sliding_to_one_full(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 2, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None),
        ("sliding_window", 6, "model.layers.1.self_attn.attn", 8, 128, 16, 65536, 512),
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 2, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None),
        ("sliding_window", 6, "model.layers.1.self_attn.attn", 1, 128, 16, 4096, 512),
    ]


def test_sinks_in_the_sliding_layers_keep_the_pages(tmp_path: Path) -> None:
    assert rows(tmp_path, {**CONFIG, "swa_attention_sink_enabled": True}, "H200") == [
        ("full_attention", 2, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None),
        ("sliding_window", 6, "model.layers.1.self_attn.attn", 8, 128, 16, 65536, 512),
    ]
