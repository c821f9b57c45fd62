"""GPT-2, OPT and BLOOM: as many KV heads as query heads; ALiBi and an fp8 cache do not go together everywhere.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused

GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "dtype": "float16",
    "n_embd": 1600,
    "n_layer": 48,
    "n_head": 25,
    "n_positions": 1024,
}
OPT = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "dtype": "float16",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "ffn_dim": 16384,
    "max_position_embeddings": 2048,
    "word_embed_proj_dim": 4096,
}
BLOOM = {
    "architectures": ["BloomForCausalLM"],
    "model_type": "bloom",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "n_layer": 30,
    "n_head": 32,
    "seq_length": 2048,
}
CONFIGS = (
    GPT2,
    OPT,
    BLOOM,
)


def test_gpt_2(tmp_path: Path) -> None:
    assert rows(tmp_path, GPT2, "H200") == [
        ("full_attention", 48, "transformer.h.0.attn.attn", 25, 64, 16, 102400, None)
    ]


def test_opt(tmp_path: Path) -> None:
    assert rows(tmp_path, OPT, "B200", tensor_parallel_size=4) == [
        ("full_attention", 32, "model.decoder.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_bloom(tmp_path: Path) -> None:
    assert rows(tmp_path, BLOOM, "H200") == [
        ("full_attention", 30, "transformer.h.0.self_attention.attn", 32, 128, 16, 262144, None)
    ]


def test_bloom_with_an_fp8_cache_on_blackwell(tmp_path: Path) -> None:
    assert rows(tmp_path, BLOOM, "B200", kv_cache_dtype="fp8") == [
        ("full_attention", 30, "transformer.h.0.self_attention.attn", 32, 128, 16, 131072, None)
    ]


def test_bloom_with_an_fp8_cache_is_refused_on_hopper(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="ALiBi"):
        rows(tmp_path, BLOOM, kv_cache_dtype="fp8")


@pytest.mark.parametrize("field", ["add_cross_attention", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"])
def test_gpt_2_variants_that_vllm_lacks_are_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(Refused, match=field):
        rows(tmp_path, {**GPT2, field: True})
