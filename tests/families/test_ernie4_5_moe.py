"""ERNIE 4.5 MoE: grouped-query attention in every layer, KV heads replicated beyond their number.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import planned, rows

from kvplan.errors import Refused

CONFIG = {
    "architectures": ["Ernie4_5_MoeForCausalLM"],
    "model_type": "ernie4_5_moe",
    "dtype": "bfloat16",
    "hidden_size": 2560,
    "num_hidden_layers": 28,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}
CONFIGS = (CONFIG,)


def test_every_layer_is_alike(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 28, "model.layers.0.self_attn.attn", 4, 128, 16, 32768, None)
    ]


def test_four_kv_heads_on_eight_ranks_are_replicated(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8) == [
        ("full_attention", 28, "model.layers.0.self_attn.attn", 1, 128, 16, 8192, None)
    ]


def test_a_tied_head_keeps_it_on_one_stage(tmp_path: Path) -> None:
    """The engine, whose config class ties: "'PPMissingLayer' object has no attribute 'tie_weights'"."""
    with pytest.raises(Refused, match="--pipeline-parallel-size 2: vLLM cannot split Ernie4_5_MoeForCausalLM"):
        planned(tmp_path, CONFIG, pipeline_parallel_size=2)
    assert planned(tmp_path, CONFIG | {"tie_word_embeddings": False}, pipeline_parallel_size=2).selected == "main"
