"""EAGLE of Llama 4: chunked layers where no_rope_layers says so, numbered after this stage's layers.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from drafter_case import drafted

SCOUT = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
DRAFTER = {
    "architectures": ["Llama4ForCausalLM"],
    "model_type": "llama4_text",
    "dtype": "bfloat16",
    "attention_chunk_size": 8192,
    "head_dim": 128,
    "hidden_size": 5120,
    "interleave_moe_layer_step": 0,
    "max_position_embeddings": 10485760,
    "moe_layers": [],
    "no_rope_layers": [1, 0],
    "layer_types": ["chunked_attention", "full_attention"],
    "num_attention_heads": 40,
    "num_hidden_layers": 2,
    "num_key_value_heads": 8,
    "vocab_size": 202048,
    "draft_vocab_size": 202048,
    "yoco_global_kv_layer": None,
    "yoco_local_kv_layer": None,
}


def test_one_chunked_and_one_full_layer(tmp_path: Path) -> None:
    assert drafted(tmp_path, SCOUT, DRAFTER, "eagle", 3, tensor_parallel_size=4, max_model_len=131072) == [
        ("chunked_local", 1, "model.layers.48.self_attn.attn", 2, 128, 16, 16384, 8192, "FLASH_ATTN"),
        ("full_attention", 1, "model.layers.49.self_attn.attn", 2, 128, 16, 16384, None, "FLASH_ATTN"),
    ]


def test_numbers_follow_the_stages_own_layers(tmp_path: Path) -> None:
    parallel = {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "max_model_len": 131072}
    assert drafted(tmp_path, SCOUT, DRAFTER, "eagle", 3, gpu="B200", kv_cache_dtype="fp8", **parallel) == [
        ("chunked_local", 1, "model.layers.24.self_attn.attn", 1, 128, 16, 4096, 8192, "FLASHINFER"),
        ("full_attention", 1, "model.layers.25.self_attn.attn", 1, 128, 16, 4096, None, "FLASHINFER"),
    ]
