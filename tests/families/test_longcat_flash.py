"""LongCat-Flash: every decoder layer has two latent attention layers.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import planned, rows

from kvplan.errors import Refused

CONFIG = {
    "architectures": ["LongcatFlashForCausalLM"],
    "model_type": "longcat_flash",
    "dtype": "bfloat16",
    "hidden_size": 6144,
    "num_layers": 28,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 131072,
    "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True,
    "zero_expert_type": "identity",
}
CONFIGS = (CONFIG,)


def test_two_latent_layers_in_each(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [("mla", 56, "model.layers.0.self_attn.0.attn", 1, 576, 16, 18432, None)]


def test_the_latent_is_replicated(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("mla", 56, "model.layers.0.self_attn.0.attn", 1, 576, 32, 18432, None)
    ]


def test_stages_split_decoder_layers(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200", pipeline_parallel_size=2) == [
        ("mla", 56, "model.layers.0.self_attn.0.attn", 1, 576, 16, 18432, None)
    ]


def test_no_layer_can_be_skipped_by_number(tmp_path: Path) -> None:
    """The engine: "layer name model.layers.0.self_attn.0.attn should only contain one integer"."""
    with pytest.raises(Refused, match=r"model\.layers\.0\.self_attn\.0\.attn of LongcatFlashForCausalLM has several"):
        planned(tmp_path, CONFIG, kv_cache_dtype_skip_layers=("sliding_window",))
