"""Gemma has a head size of its own; in Gemma 2 every other layer slides.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused

GEMMA = {
    "architectures": ["GemmaForCausalLM"],
    "model_type": "gemma",
    "dtype": "bfloat16",
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "max_position_embeddings": 8192,
}
GEMMA2 = {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "dtype": "bfloat16",
    "hidden_size": 3584,
    "num_hidden_layers": 42,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "sliding_window": 4096,
    "attn_logit_softcapping": 50.0,
    "max_position_embeddings": 8192,
}
CONFIGS = (
    GEMMA,
    GEMMA2,
)


def test_the_head_size_is_the_fields_not_the_quotient(tmp_path: Path) -> None:
    assert rows(tmp_path, GEMMA, "H200") == [
        ("full_attention", 28, "model.layers.0.self_attn.attn", 16, 256, 16, 262144, None)
    ]


def test_every_other_layer_slides(tmp_path: Path) -> None:
    assert rows(tmp_path, GEMMA2, "H200") == [
        ("sliding_window", 21, "model.layers.0.self_attn.attn", 8, 256, 16, 131072, 4096),
        ("full_attention", 21, "model.layers.1.self_attn.attn", 8, 256, 16, 131072, None),
    ]


def test_ranks_split_heads_of_both_kinds(tmp_path: Path) -> None:
    assert rows(tmp_path, GEMMA2, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("sliding_window", 21, "model.layers.0.self_attn.attn", 1, 256, 16, 8192, 4096),
        ("full_attention", 21, "model.layers.1.self_attn.attn", 1, 256, 16, 8192, None),
    ]


def test_soft_capping_refuses_flex_attention(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="FLEX_ATTENTION does not support"):
        rows(tmp_path, GEMMA2, attention_backend="FLEX_ATTENTION")
