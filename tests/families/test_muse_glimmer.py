"""Muse Glimmer: three sliding layers to one full layer, counted back from the last.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["MuseGlimmerForConditionalGeneration"],
    "model_type": "muse_glimmer",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "muse_glimmer_text",
        "hidden_size": 6656,
        "num_hidden_layers": 52,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "sliding_window": 2048,
        "max_position_embeddings": 131072,
    },
}
CONFIGS = (CONFIG,)


def test_three_sliding_to_one_full(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("sliding_window", 39, "model.layers.0.self_attn.attn", 2, 128, 16, 16384, 2048),
        ("full_attention", 13, "model.layers.3.self_attn.attn", 2, 128, 16, 16384, None),
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("sliding_window", 39, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, 2048),
        ("full_attention", 13, "model.layers.3.self_attn.attn", 1, 128, 16, 4096, None),
    ]
