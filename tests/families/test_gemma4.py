"""Gemma 4: full layers have heads of their own, the last layers may read an earlier layer's cache.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError, Refused

DENSE = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "dtype": "bfloat16",
    "vision_config": {"model_type": "gemma4_vision"},
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size": 5376,
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "num_global_key_value_heads": 4,
        "attention_k_eq_v": True,
        "head_dim": 256,
        "global_head_dim": 512,
        "hidden_size_per_layer_input": 0,
        "sliding_window": 1024,
        "max_position_embeddings": 262144,
        "use_bidirectional_attention": "vision",
    },
}
SHARED = {
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "dtype": "bfloat16",
    "hidden_size": 2560,
    "num_hidden_layers": 42,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_kv_shared_layers": 18,
    "head_dim": 256,
    "global_head_dim": 512,
    "sliding_window": 512,
    "max_position_embeddings": 131072,
}
UNIFIED = {
    "architectures": ["Gemma4UnifiedForConditionalGeneration"],
    "model_type": "gemma4_unified",
    "dtype": "bfloat16",
    "vision_config": {"model_type": "gemma4_unified_vision"},
    "text_config": {
        "model_type": "gemma4_unified_text",
        "num_hidden_layers": 12,
        "per_layer_config": {"05": {"head_dim": 512}, "11": {"head_dim": 512}},
        "use_bidirectional_attention": "vision",
    },
}
CONFIGS = (
    DENSE,
    SHARED,
    UNIFIED,
)


def test_full_layers_have_heads_of_their_own(tmp_path: Path) -> None:
    assert rows(tmp_path, DENSE, "H200") == [
        ("sliding_window", 50, "language_model.model.layers.0.self_attn.attn", 16, 256, 16, 262144, 1024),
        ("full_attention", 10, "language_model.model.layers.5.self_attn.attn", 4, 512, 16, 131072, None),
    ]


def test_an_fp8_cache_on_hopper_reads_pages_of_64_tokens(tmp_path: Path) -> None:
    assert rows(tmp_path, DENSE, "H200", kv_cache_dtype="fp8", tensor_parallel_size=2) == [
        ("sliding_window", 50, "language_model.model.layers.0.self_attn.attn", 8, 256, 64, 262144, 1024),
        ("full_attention", 10, "language_model.model.layers.5.self_attn.attn", 2, 512, 64, 131072, None),
    ]


def test_image_tokens_choose_another_backend_on_blackwell(tmp_path: Path) -> None:
    assert rows(tmp_path, DENSE, "B200", tensor_parallel_size=8) == [
        ("sliding_window", 50, "language_model.model.layers.0.self_attn.attn", 2, 256, 64, 131072, 1024),
        ("full_attention", 10, "language_model.model.layers.5.self_attn.attn", 1, 512, 64, 131072, None),
    ]


def test_eighteen_of_forty_two_layers_cache_nothing(tmp_path: Path) -> None:
    assert rows(tmp_path, SHARED, "H200") == [
        ("sliding_window", 20, "model.layers.0.self_attn.attn", 2, 256, 16, 32768, 512),
        ("full_attention", 4, "model.layers.5.self_attn.attn", 2, 512, 16, 65536, None),
    ]


def test_the_file_may_name_single_layers(tmp_path: Path) -> None:
    assert rows(tmp_path, UNIFIED, "H200") == [
        ("sliding_window", 10, "language_model.model.layers.0.self_attn.attn", 4, 256, 16, 65536, 1024),
        ("full_attention", 2, "language_model.model.layers.5.self_attn.attn", 4, 512, 16, 131072, None),
    ]


def test_sharing_across_pipeline_stages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="another pipeline stage"):
        rows(tmp_path, SHARED, pipeline_parallel_size=3)


def test_sharing_that_leaves_no_layer_of_a_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="num_kv_shared_layers 40"):
        rows(tmp_path, {**SHARED, "num_kv_shared_layers": 40})


def test_a_layer_number_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="per_layer_config"):
        rows(tmp_path, {**SHARED, "per_layer_config": {"last": {"head_dim": 64}}})


def test_the_wrapper_needs_its_vision_config(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="vision_config is missing"):
        rows(tmp_path, {**DENSE, "vision_config": None})


def test_a_layer_with_a_window_of_its_own_is_refused(tmp_path: Path) -> None:
    text = {**UNIFIED["text_config"], "per_layer_config": {"05": {"sliding_window": 8}}}  # type: ignore[dict-item]
    with pytest.raises(Refused, match=r"per_layer_config\[5\]: sliding_window differs by layer"):
        rows(tmp_path, {**UNIFIED, "text_config": text}, "H200")
