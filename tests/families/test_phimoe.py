"""Phi-3.5-MoE: its window, as long as the model, makes every layer a sliding one.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["PhiMoEForCausalLM"],
    "model_type": "phimoe",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 131072,
}
CONFIGS = (CONFIG,)


def test_every_layer_slides(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("sliding_window", 32, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, 131072)
    ]


def test_without_a_window_every_layer_is_full(tmp_path: Path) -> None:
    assert rows(tmp_path, {**CONFIG, "sliding_window": None}, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 32, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]
