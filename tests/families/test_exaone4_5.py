"""EXAONE 4.5 caches what its text model, an EXAONE 4, caches; its vision tower limits tensor parallelism.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import rows

from kvplan.errors import Refused

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
CONFIGS = (CONFIG,)


def test_layers_of_the_text_model(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200", tensor_parallel_size=2) == [
        ("sliding_window", 6, "language_model.model.layers.0.self_attn.attn", 4, 128, 16, 32768, 4096),
        ("full_attention", 2, "language_model.model.layers.3.self_attn.attn", 4, 128, 16, 32768, None),
    ]


def test_a_vision_tower_that_cannot_be_split_is_refused(tmp_path: Path) -> None:
    config = {**CONFIG, "vision_config": {**CONFIG["vision_config"], "intermediate_size": 3421}}
    with pytest.raises(Refused, match=r"vision_config\.intermediate_size 3421"):
        rows(tmp_path, config, "H200", tensor_parallel_size=2)
