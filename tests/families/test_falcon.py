"""Falcon: KV heads by the generation of the decoder; the KV dtype stays the model's whatever the flag says.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["FalconForCausalLM"],
    "model_type": "falcon",
    "dtype": "bfloat16",
    "hidden_size": 4544,
    "num_hidden_layers": 32,
    "num_attention_heads": 71,
    "multi_query": True,
    "new_decoder_architecture": False,
}
CONFIGS = (CONFIG,)


def test_multi_query_has_one_kv_head(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 32, "transformer.h.0.self_attention.attn", 1, 64, 16, 4096, None)
    ]


def test_an_fp8_cache_is_not_applied(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", kv_cache_dtype="fp8") == [
        ("full_attention", 32, "transformer.h.0.self_attention.attn", 1, 64, 16, 4096, None)
    ]


def test_the_new_decoder_has_its_own_count(tmp_path: Path) -> None:
    assert rows(
        tmp_path,
        {
            **CONFIG,
            "hidden_size": 8192,
            "num_attention_heads": 128,
            "num_kv_heads": 8,
            "new_decoder_architecture": True,
        },
        "H200",
        tensor_parallel_size=4,
    ) == [("full_attention", 32, "transformer.h.0.self_attention.attn", 2, 64, 16, 8192, None)]


def test_the_old_decoder_without_multi_query_has_as_many_as_query_heads(tmp_path: Path) -> None:
    assert rows(tmp_path, {**CONFIG, "hidden_size": 4096, "num_attention_heads": 64, "multi_query": False}, "H200") == [
        ("full_attention", 32, "transformer.h.0.self_attention.attn", 64, 64, 16, 262144, None)
    ]


def test_alibi_over_an_fp8_flag_still_caches_the_model_dtype(tmp_path: Path) -> None:
    assert rows(tmp_path, {**CONFIG, "alibi": True}, "H200", kv_cache_dtype="fp8") == [
        ("full_attention", 32, "transformer.h.0.self_attention.attn", 1, 64, 16, 4096, None)
    ]
