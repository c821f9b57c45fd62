"""Llama 4: chunked local attention where the layer rotates, full attention where it does not.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "model_type": "llama4",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attention_chunk_size": 8192,
        "max_position_embeddings": 131072,
    },
}
CONFIGS = (CONFIG,)


def test_three_chunked_to_one_full(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("chunked_local", 36, "language_model.model.layers.0.self_attn.attn", 8, 128, 16, 65536, 8192),
        ("full_attention", 12, "language_model.model.layers.3.self_attn.attn", 8, 128, 16, 65536, None),
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("chunked_local", 36, "language_model.model.layers.0.self_attn.attn", 1, 128, 16, 4096, 8192),
        ("full_attention", 12, "language_model.model.layers.3.self_attn.attn", 1, 128, 16, 4096, None),
    ]


def test_without_a_chunk_size_every_layer_is_full(tmp_path: Path) -> None:
    text = {**CONFIG["text_config"], "attention_chunk_size": None}
    found = rows(tmp_path, {**CONFIG, "text_config": text})
    assert found == [("full_attention", 48, "language_model.model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)]
