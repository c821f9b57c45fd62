"""MTP of EXAONE 4.5: modules of the kinds that the target's first layers have.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drafter_case import drafted

CONFIG: dict[str, Any] = {
    "architectures": ["Exaone4_5_ForConditionalGeneration"],
    "model_type": "exaone4_5",
    "dtype": "bfloat16",
    "num_nextn_predict_layers": 1,
    "text_config": {
        "model_type": "exaone4_5_text",
        "dtype": "bfloat16",
        "hidden_size": 5120,
        "intermediate_size": 27392,
        "num_hidden_layers": 8,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "sliding_window": 4096,
        "sliding_window_pattern": "LLLG",
        "layer_types": [
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "full_attention",
            "sliding_attention",
            "sliding_attention",
            "sliding_attention",
            "full_attention",
        ],
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1000000,
        },
        "vocab_size": 153600,
    },
    "vision_config": {
        "depth": 4,
        "hidden_size": 2048,
        "intermediate_size": 5120,
        "num_heads": 32,
        "num_key_value_heads": 8,
        "out_hidden_size": 5120,
        "fullatt_block_indexes": [3],
    },
    "vocab_size": 153600,
}


def test_one_windowed_module(tmp_path: Path) -> None:
    assert drafted(tmp_path, CONFIG, None, "mtp", 1) == [
        ("sliding_window", 1, "mtp.layers.0.self_attn.attn", 8, 128, 16, 65536, 4096, "FLASH_ATTN")
    ]


def test_a_fourth_module_is_full(tmp_path: Path) -> None:
    target = {**CONFIG, "num_nextn_predict_layers": 5}
    assert drafted(tmp_path, target, None, "mtp", 10, tensor_parallel_size=2) == [
        ("sliding_window", 4, "mtp.layers.0.self_attn.attn", 4, 128, 16, 32768, 4096, "FLASH_ATTN"),
        ("full_attention", 1, "mtp.layers.3.self_attn.attn", 4, 128, 16, 32768, None, "FLASH_ATTN"),
    ]
