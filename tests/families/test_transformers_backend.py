"""Models on vLLM's Transformers backend: plain layers with windows, or latent ones; others are refused by name.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError, Refused

OLMO3 = {
    "architectures": ["Olmo3ForCausalLM"],
    "model_type": "olmo3",
    "dtype": "bfloat16",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "max_position_embeddings": 65536,
}
OLMO2 = {
    "architectures": ["Olmo2ForCausalLM"],
    "model_type": "olmo2",
    "dtype": "bfloat16",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
}
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"],
    "model_type": "gpt_neox",
    "dtype": "float16",
    "hidden_size": 5120,
    "num_hidden_layers": 36,
    "num_attention_heads": 40,
    "max_position_embeddings": 2048,
}
STARCODER2 = {
    "architectures": ["Starcoder2ForCausalLM"],
    "model_type": "starcoder2",
    "dtype": "bfloat16",
    "hidden_size": 6144,
    "num_hidden_layers": 40,
    "num_attention_heads": 48,
    "num_key_value_heads": 4,
    "sliding_window": 4096,
    "max_position_embeddings": 16384,
}
SMOLLM3 = {
    "architectures": ["SmolLM3ForCausalLM"],
    "model_type": "smollm3",
    "dtype": "bfloat16",
    "num_hidden_layers": 8,
    "use_sliding_window": True,
    "sliding_window": 1024,
    "max_position_embeddings": 65536,
}
PHI = {
    "architectures": ["PhiForCausalLM"],
    "model_type": "phi",
    "dtype": "float16",
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
SEED = {
    "architectures": ["SeedOssForCausalLM"],
    "model_type": "seed_oss",
    "dtype": "bfloat16",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 80,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 524288,
}
HUNYUAN = {
    "architectures": ["HunYuanDenseV1ForCausalLM"],
    "model_type": "hunyuan_v1_dense",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 32768,
}
HUNYUAN_MOE = {
    "architectures": ["HunYuanMoEV1ForCausalLM"],
    "model_type": "hunyuan_v1_moe",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 32768,
    "num_experts": 64,
    "moe_topk": 8,
}
SOLAR = {
    "architectures": ["SolarOpenForCausalLM"],
    "model_type": "solar_open",
    "dtype": "bfloat16",
    "max_position_embeddings": 131072,
}
MISTRAL4 = {
    "architectures": ["Mistral4ForCausalLM"],
    "model_type": "mistral4",
    "dtype": "bfloat16",
    "kv_lora_rank": 256,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 64,
    "v_head_dim": 128,
    "num_hidden_layers": 36,
}
YOUTU = {
    "architectures": ["YoutuForCausalLM"],
    "model_type": "youtu",
    "dtype": "bfloat16",
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
}
CONFIGS = (
    OLMO3,
    OLMO2,
    NEOX,
    STARCODER2,
    SMOLLM3,
    PHI,
    SEED,
    HUNYUAN,
    HUNYUAN_MOE,
    SOLAR,
    MISTRAL4,
    YOUTU,
)


def test_olmo_3_slides_in_three_layers_of_four(tmp_path: Path) -> None:
    assert rows(tmp_path, OLMO3, "H200") == [
        ("sliding_window", 48, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, 4096),
        ("full_attention", 16, "model.layers.3.self_attn.attn", 8, 128, 16, 65536, None),
    ]


def test_olmo_2(tmp_path: Path) -> None:
    assert rows(tmp_path, OLMO2, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 64, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]


def test_gpt_neox_names_its_attention_otherwise(tmp_path: Path) -> None:
    assert rows(tmp_path, NEOX, "H200", tensor_parallel_size=2) == [
        ("full_attention", 36, "model.layers.0.attention.attn", 20, 128, 16, 163840, None)
    ]


def test_the_window_of_starcoder_2_holds_in_every_layer(tmp_path: Path) -> None:
    assert rows(tmp_path, STARCODER2, "H200") == [
        ("sliding_window", 40, "model.layers.0.self_attn.attn", 4, 128, 16, 32768, 4096)
    ]


def test_smollm_3_slides_where_it_does_not_rotate(tmp_path: Path) -> None:
    assert rows(tmp_path, SMOLLM3, "H200") == [
        ("full_attention", 6, "model.layers.0.self_attn.attn", 4, 128, 16, 32768, None),
        ("sliding_window", 2, "model.layers.3.self_attn.attn", 4, 128, 16, 32768, 1024),
    ]


def test_phi(tmp_path: Path) -> None:
    assert rows(tmp_path, PHI, "H200") == [
        ("full_attention", 32, "model.layers.0.self_attn.attn", 32, 80, 16, 163840, None)
    ]


def test_seed_oss(tmp_path: Path) -> None:
    assert rows(tmp_path, SEED, "B200", tensor_parallel_size=2) == [
        ("full_attention", 64, "model.layers.0.self_attn.attn", 4, 128, 16, 32768, None)
    ]


def test_hunyuan_dense(tmp_path: Path) -> None:
    assert rows(tmp_path, HUNYUAN, "H200") == [
        ("full_attention", 32, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_hunyuan_moe(tmp_path: Path) -> None:
    assert rows(tmp_path, HUNYUAN_MOE, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 32, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]


def test_solar_open(tmp_path: Path) -> None:
    assert rows(tmp_path, SOLAR, "H200") == [
        ("full_attention", 48, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_mistral_small_4_caches_latents(tmp_path: Path) -> None:
    assert rows(tmp_path, MISTRAL4, "B200", tensor_parallel_size=2) == [
        ("mla", 36, "model.layers.0.self_attn.attn", 1, 320, 32, 20480, None)
    ]


def test_youtu_caches_latents(tmp_path: Path) -> None:
    assert rows(tmp_path, YOUTU, "H200") == [("mla", 32, "model.layers.0.self_attn.attn", 1, 576, 16, 18432, None)]


def test_another_wrapped_class_is_refused_by_name(tmp_path: Path) -> None:
    config = {**SOLAR, "architectures": ["DiffLlamaForCausalLM"]}
    with pytest.raises(Refused, match="DiffLlamaForCausalLM"):
        rows(tmp_path, config)


def test_hunyuan_without_a_head_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="head_dim is missing or null"):
        rows(tmp_path, {**HUNYUAN, "head_dim": None})
