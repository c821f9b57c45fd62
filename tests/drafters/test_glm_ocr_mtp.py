"""MTP of GLM-OCR: layers of GLM-4, numbered after the text model's.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import drafted

from kvplan.errors import Refused

CONFIG: dict[str, Any] = {
    "architectures": ["GlmOcrForConditionalGeneration"],
    "model_type": "glm_ocr",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "glm_ocr_text",
        "dtype": "bfloat16",
        "hidden_size": 1536,
        "intermediate_size": 4608,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "num_nextn_predict_layers": 1,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000,
            "mrope_section": [16, 24, 24],
            "partial_rotary_factor": 1.0,
        },
        "vocab_size": 59392,
    },
    "vision_config": {
        "depth": 2,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_heads": 16,
        "out_hidden_size": 1536,
        "image_size": 336,
        "patch_size": 14,
    },
}


def test_one_module(tmp_path: Path) -> None:
    assert drafted(tmp_path, CONFIG, None, "mtp", 3, tensor_parallel_size=2) == [
        ("full_attention", 1, "model.layers.16.self_attn.attn", 4, 128, 16, 32768, None, "FLASH_ATTN")
    ]


def test_another_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="GlmOcrMTPModel drafts for GlmOcrForConditionalGeneration only"):
        drafted(tmp_path, "Qwen/Qwen3-8B", CONFIG, "mtp", 1)
