"""DeciLM: layers without attention cache nothing, the others have KV heads of their own.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError

CONFIG = {
    "architectures": ["DeciLMForCausalLM"],
    "model_type": "nemotron-nas",
    "dtype": "bfloat16",
    "hidden_act": "silu",
    "hidden_size": 8192,
    "num_hidden_layers": 6,
    "num_attention_heads": 64,
    "num_key_value_heads": None,
    "block_configs": [
        {"attention": {"no_op": False, "n_heads_in_group": 8}, "ffn": {"no_op": False, "ffn_mult": 2.625}},
        {"attention": {"no_op": False, "n_heads_in_group": 16}, "ffn": {"no_op": False, "ffn_mult": 2.625}},
        {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"no_op": False, "ffn_mult": 2.625}},
    ]
    * 2,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
CONFIGS = (CONFIG,)


def test_layers_differ_in_kv_heads_and_some_have_none(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 2, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None),
        ("full_attention", 2, "model.layers.1.self_attn.attn", 4, 128, 16, 32768, None),
    ]


def test_eight_ranks_replicate_the_smaller_count(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 4, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]


def test_a_list_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="block_configs must have 7 entries"):
        rows(tmp_path, {**CONFIG, "num_hidden_layers": 7})
