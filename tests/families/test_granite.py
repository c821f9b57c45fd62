"""Granite: full attention, and with layer_types sliding layers with attention sinks.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["GraniteForCausalLM"],
    "model_type": "granite",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
CONFIGS = (CONFIG,)


def test_every_layer_is_alike(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 40, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_layer_types_make_sliding_layers(tmp_path: Path) -> None:
    assert rows(
        tmp_path,
        {
            **CONFIG,
            "num_hidden_layers": 4,
            "sliding_window": 1024,
            "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
        },
        "B200",
        tensor_parallel_size=2,
    ) == [
        ("sliding_window", 3, "model.layers.0.self_attn.attn", 4, 128, 16, 32768, 1024),
        ("full_attention", 1, "model.layers.3.self_attn.attn", 4, 128, 16, 32768, None),
    ]
