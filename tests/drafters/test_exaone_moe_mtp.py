"""MTP of K-EXAONE: kinds and windows of its own, never a quantized cache.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drafter_case import drafted

K_EXAONE = {
    "architectures": ["ExaoneMoEForCausalLM"],
    "model_type": "exaone_moe",
    "dtype": "bfloat16",
    "hidden_size": 6144,
    "intermediate_size": 18432,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": 128,
    "sliding_window_pattern": 4,
    "max_position_embeddings": 262144,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "num_nextn_predict_layers": 1,
    "vocab_size": 153600,
}
TWO = {"mtp_layer_types": ["sliding_attention", "full_attention"], "mtp_sliding_windows": [512, 512]}


def test_one_windowed_module(tmp_path: Path) -> None:
    assert drafted(tmp_path, K_EXAONE, None, "mtp", 2, tensor_parallel_size=8) == [
        ("sliding_window", 1, "mtp.layers.0.self_attn.attn", 1, 128, 16, 8192, 128, "FLASH_ATTN")
    ]


def test_fp8_is_the_targets_alone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"gpu": "B200", "tensor_parallel_size": 4, "kv_cache_dtype": "fp8"}
    assert drafted(tmp_path, K_EXAONE, None, "mtp", 2, **options) == [
        ("sliding_window", 1, "mtp.layers.0.self_attn.attn", 2, 128, 16, 16384, 128, "FLASHINFER")
    ]


def test_two_modules_of_kinds_of_their_own(tmp_path: Path) -> None:
    target = {**K_EXAONE, "num_nextn_predict_layers": 2, **TWO}
    assert drafted(tmp_path, target, None, "mtp", 2, tensor_parallel_size=8) == [
        ("sliding_window", 1, "mtp.layers.0.self_attn.attn", 1, 128, 16, 8192, 512, "FLASH_ATTN"),
        ("full_attention", 1, "mtp.layers.1.self_attn.attn", 1, 128, 16, 8192, None, "FLASH_ATTN"),
    ]
