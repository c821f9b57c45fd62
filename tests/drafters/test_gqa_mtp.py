"""MTP with one attention layer per module: GLM-4 MoE, HY V3, ERNIE 4.5 and MiMo.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drafter_case import changed, drafted

ERNIE = "baidu/ERNIE-4.5-300B-A47B-PT"
HY_V3 = {
    "architectures": ["HYV3ForCausalLM"],
    "model_type": "hy_v3",
    "dtype": "bfloat16",
    "vocab_size": 120832,
    "hidden_size": 4096,
    "intermediate_size": 13312,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "num_experts": 192,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 1536,
    "expert_hidden_dim": 1536,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
    "route_norm": True,
}


def test_glm_4_moe(tmp_path: Path) -> None:
    assert drafted(tmp_path, "zai-org/GLM-4.6", None, "mtp", 1, tensor_parallel_size=8) == [
        ("full_attention", 1, "model.layers.92.self_attn.attn", 1, 128, 16, 8192, None, "FLASH_ATTN")
    ]


def test_its_number_counts_all_stages(tmp_path: Path) -> None:
    parallel = {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}
    assert drafted(tmp_path, "zai-org/GLM-4.7", None, "mtp", 1, **parallel) == [
        ("full_attention", 1, "model.layers.92.self_attn.attn", 2, 128, 16, 16384, None, "FLASH_ATTN")
    ]


def test_hy_v3(tmp_path: Path) -> None:
    assert drafted(tmp_path, HY_V3, None, "mtp", 1, tensor_parallel_size=8) == [
        ("full_attention", 1, "model.layers.80.self_attn.attn", 1, 128, 16, 8192, None, "FLASH_ATTN")
    ]


def test_ernie(tmp_path: Path) -> None:
    target = changed(ERNIE, num_nextn_predict_layers=1)
    assert drafted(tmp_path, target, None, "mtp", 1, tensor_parallel_size=8) == [
        ("full_attention", 1, "model.layers.54.self_attn.attn", 1, 128, 16, 8192, None, "FLASH_ATTN")
    ]


def test_mimo_modules_have_the_targets_window(tmp_path: Path) -> None:
    options: dict[str, Any] = {"hf_overrides": {"num_nextn_predict_layers": 3}, "tensor_parallel_size": 4}
    assert drafted(tmp_path, "XiaomiMiMo/MiMo-7B-Base", None, "mtp", 3, gpu="B200", **options) == [
        ("sliding_window", 3, "model.layers.36.self_attn.attn", 2, 128, 16, 16384, 32768, "FLASHINFER")
    ]
