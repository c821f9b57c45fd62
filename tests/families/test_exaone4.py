"""EXAONE 4: three sliding layers to one full layer, and full attention throughout without a window.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["Exaone4ForCausalLM"],
    "model_type": "exaone4",
    "dtype": "bfloat16",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
    "max_position_embeddings": 131072,
}
CONFIGS = (CONFIG,)


def test_three_sliding_to_one_full(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("sliding_window", 48, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, 4096),
        ("full_attention", 16, "model.layers.3.self_attn.attn", 8, 128, 16, 65536, None),
    ]


def test_a_null_window_makes_every_layer_full(tmp_path: Path) -> None:
    assert rows(
        tmp_path,
        {
            **CONFIG,
            "sliding_window": None,
            "layer_types": ["full_attention"] * 64,
        },
        "B200",
        tensor_parallel_size=2,
    ) == [("full_attention", 64, "model.layers.0.self_attn.attn", 4, 128, 16, 32768, None)]
