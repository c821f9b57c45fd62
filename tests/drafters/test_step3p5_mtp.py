"""MTP of Step 3.5: one windowed layer per module, after the target's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import V1, drafted

from kvplan.errors import Refused

STEP = {
    "architectures": ["Step3p5ForCausalLM"],
    "model_type": "step3p5",
    "dtype": "bfloat16",
    "vocab_size": 128815,
    "hidden_size": 4096,
    "intermediate_size": 11264,
    "num_hidden_layers": 6,
    "num_attention_heads": 64,
    "num_sliding_attention_heads": 96,
    "num_attention_groups": 8,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 128000,
    "sliding_window": 512,
    "moe_num_experts": 16,
    "moe_top_k": 4,
    "moe_intermediate_size": 1280,
    "share_expert_dim": 1280,
    "use_moe_router_bias": True,
    "need_fp32_gate": True,
    "norm_expert_weight": True,
    "mlp_layer_types": ["dense", "sparse", "sparse", *["dense"] * 6],
    "swiglu_limits": [0.0] * 9,
    "swiglu_limits_shared": [0.0] * 9,
    "num_nextn_predict_layers": 3,
}


def target(*modules: str) -> dict[str, Any]:
    return {**STEP, "layer_types": ["full_attention", *["sliding_attention"] * 5, *modules]}


def test_three_windowed_modules(tmp_path: Path) -> None:
    config = target(*["sliding_attention"] * 3)
    assert drafted(tmp_path, config, None, "mtp", 3, tensor_parallel_size=2) == [
        ("sliding_window", 3, "model.layers.6.mtp_block.self_attn.attn", 4, 128, 16, 32768, 512, "FLASH_ATTN")
    ]


def test_on_v1(tmp_path: Path) -> None:
    config = target(*["sliding_attention"] * 3)
    assert drafted(tmp_path, config, None, "mtp", 3, gpu="B200", env=V1) == [
        ("sliding_window", 3, "model.layers.6.mtp_block.self_attn.attn", 8, 128, 16, 65536, 512, "FLASHINFER")
    ]


def test_a_full_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="sliding modules only"):
        drafted(tmp_path, target("sliding_attention", "sliding_attention", "full_attention"), None, "mtp", 3)
