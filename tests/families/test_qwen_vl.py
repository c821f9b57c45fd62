"""Qwen2.5-VL and Qwen3-VL cache what their text model caches; the vision tower sets limits of its own.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused

QWEN25 = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "qwen2_5_vl_text",
        "hidden_size": 8192,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "max_position_embeddings": 32768,
    },
    "vision_config": {"intermediate_size": 3456},
}
QWEN3 = {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "model_type": "qwen3_vl",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "qwen3_vl_text",
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 262144,
    },
}
QWEN3_MOE = {
    "architectures": ["Qwen3VLMoeForConditionalGeneration"],
    "model_type": "qwen3_vl_moe",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "qwen3_vl_moe_text",
        "hidden_size": 4096,
        "num_hidden_layers": 94,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "max_position_embeddings": 262144,
        "norm_topk_prob": True,
    },
}
CONFIGS = (
    QWEN25,
    QWEN3,
    QWEN3_MOE,
)


def test_qwen_2_5_vl(tmp_path: Path) -> None:
    assert rows(tmp_path, QWEN25, "H200") == [
        ("full_attention", 80, "language_model.model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_qwen_3_vl(tmp_path: Path) -> None:
    assert rows(tmp_path, QWEN3, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 64, "language_model.model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]


def test_qwen_3_vl_moe_replicates_its_four_kv_heads(tmp_path: Path) -> None:
    assert rows(tmp_path, QWEN3_MOE, "H200", tensor_parallel_size=8) == [
        ("full_attention", 94, "language_model.model.layers.0.self_attn.attn", 1, 128, 16, 8192, None)
    ]


def test_a_vision_tower_that_does_not_divide_is_refused(tmp_path: Path) -> None:
    config = {**QWEN25, "vision_config": {"intermediate_size": 3420}}
    with pytest.raises(Refused, match=r"3420\)? cannot be split over --tensor-parallel-size 8"):
        rows(tmp_path, config, tensor_parallel_size=8)
    flags = {"mm_encoder_tp_mode": "data"}
    assert rows(tmp_path, config, tensor_parallel_size=8, additional_flags=flags)[0][3] == 1


def test_vision_features_must_go_into_layers_of_the_first_stage(tmp_path: Path) -> None:
    text = {**QWEN3["text_config"], "num_hidden_layers": 16}
    with pytest.raises(Refused, match="deepstack_visual_indexes"):
        rows(tmp_path, {**QWEN3, "text_config": text}, pipeline_parallel_size=8)
