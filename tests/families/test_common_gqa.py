"""What the grouped-query families share: head counts that divide, windows that are taken away, layers that differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError, Refused

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
SLIDING = {**LLAMA, "sliding_window": 1024, "layer_types": ["sliding_attention", "full_attention"] * 2}
NAME = "model.layers.0.self_attn.attn"


def test_kv_heads_that_query_heads_cannot_share_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="32 attention heads cannot share 5 KV heads"):
        rows(tmp_path, {**LLAMA, "num_key_value_heads": 5})


def test_a_head_size_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="hidden_size"):
        rows(tmp_path, {**LLAMA, "hidden_size": 16, "head_dim": None})


def test_layers_keep_the_window_of_their_type(tmp_path: Path) -> None:
    assert rows(tmp_path, SLIDING) == [
        ("sliding_window", 2, NAME, 8, 128, 16, 65536, 1024),
        ("full_attention", 2, "model.layers.1.self_attn.attn", 8, 128, 16, 65536, None),
    ]


def test_disabling_the_window_makes_every_layer_full(tmp_path: Path) -> None:
    found = rows(tmp_path, SLIDING, additional_flags={"disable_sliding_window": True})
    assert found == [("full_attention", 4, NAME, 8, 128, 16, 65536, None)]


def test_a_window_of_zero_is_none(tmp_path: Path) -> None:
    assert rows(tmp_path, {**SLIDING, "sliding_window": 0}) == [("full_attention", 4, NAME, 8, 128, 16, 65536, None)]


def test_a_model_level_window_holds_in_every_layer(tmp_path: Path) -> None:
    found = rows(tmp_path, {**LLAMA, "sliding_window": 1024})
    assert found == [("sliding_window", 4, NAME, 8, 128, 16, 65536, 1024)]


def test_layers_that_differ_are_refused_where_the_model_class_cannot_read_them(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="per_layer_config"):
        rows(tmp_path, {**LLAMA, "per_layer_config": {"3": {"num_key_value_heads": 4}}})


def test_an_unknown_layer_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="layer_types"):
        rows(tmp_path, {**LLAMA, "layer_types": ["full_attention"] * 3 + ["reversed_attention"]})
