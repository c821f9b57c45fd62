"""AFMoE (Trinity): every fourth layer is full, and a config without a field that vLLM reads is refused.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError

CONFIG = {
    "architectures": ["AfmoeForCausalLM"],
    "model_type": "afmoe",
    "dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "sliding_window": 2048,
    "global_attn_every_n_layers": 4,
    "max_position_embeddings": 131072,
    "score_func": "sigmoid",
    "route_norm": True,
    "n_group": 1,
    "topk_group": 1,
}
CONFIGS = (CONFIG,)


def test_every_fourth_layer_is_full(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("sliding_window", 24, "model.layers.0.self_attn.attn", 4, 128, 16, 32768, 2048),
        ("full_attention", 8, "model.layers.3.self_attn.attn", 4, 128, 16, 32768, None),
    ]


def test_heads_are_split_and_fp8_halves_the_page(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=2, kv_cache_dtype="fp8") == [
        ("sliding_window", 24, "model.layers.0.self_attn.attn", 2, 128, 16, 8192, 2048),
        ("full_attention", 8, "model.layers.3.self_attn.attn", 2, 128, 16, 8192, None),
    ]


@pytest.mark.parametrize("field", ["score_func", "route_norm", "n_group", "topk_group"])
def test_a_field_that_the_model_reads_and_the_class_lacks_is_asked_for(tmp_path: Path, field: str) -> None:
    config = {key: value for key, value in CONFIG.items() if key != field}
    with pytest.raises(KvplanError, match=f"{field} is missing"):
        rows(tmp_path, config)
