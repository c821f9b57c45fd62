"""Command R caches every token in every layer; Command A slides over its window and the query's own token.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError

COHERE = {
    "architectures": ["CohereForCausalLM"],
    "model_type": "cohere",
    "dtype": "float16",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
COHERE2 = {
    "architectures": ["Cohere2ForCausalLM"],
    "model_type": "cohere2",
    "dtype": "bfloat16",
    "hidden_size": 12288,
    "num_hidden_layers": 64,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 4096,
    "max_position_embeddings": 131072,
}
CONFIGS = (
    COHERE,
    COHERE2,
)


def test_command_r_is_full_everywhere(tmp_path: Path) -> None:
    assert rows(tmp_path, COHERE, "H200") == [
        ("full_attention", 32, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_the_window_counts_the_query_and_the_head_size_is_divided(tmp_path: Path) -> None:
    assert rows(tmp_path, COHERE2, "H200") == [
        ("sliding_window", 48, "model.layers.0.self_attn.attn", 8, 64, 16, 32768, 4097),
        ("full_attention", 16, "model.layers.3.self_attn.attn", 8, 64, 16, 32768, None),
    ]


def test_without_the_window_every_layer_is_full(tmp_path: Path) -> None:
    assert rows(
        tmp_path,
        {
            **COHERE2,
            "layer_types": ["full_attention"] * 64,
        },
        "B200",
        tensor_parallel_size=8,
    ) == [("full_attention", 64, "model.layers.0.self_attn.attn", 1, 64, 16, 4096, None)]


def test_a_null_head_dim_is_not_divided_out(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="head_dim must be an integer, got None"):
        rows(tmp_path, CONFIGS[0] | {"head_dim": None}, "H200")


def test_an_odd_quotient_is_no_head_size_where_the_file_has_one(tmp_path: Path) -> None:
    """5120 // 96 is 53; the engine plans heads of 64."""
    assert {row[4] for row in rows(tmp_path, COHERE2 | {"hidden_size": 5120}, "H200")} == {64}
