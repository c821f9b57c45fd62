"""DFlash2 of Beam: sliding layers that look both ways, numbered after the target's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import drafted

from kvplan.errors import KvplanError

TARGET = "Qwen/Qwen3-32B"
DRAFTER: dict[str, Any] = {
    "architectures": ["DFlash2BeamDraftModel"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "vocab_size": 151936,
    "hidden_size": 5120,
    "intermediate_size": 10240,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "sliding_window": 2048,
    "use_sliding_window": True,
    "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
    "is_causal": False,
    "rms_norm_eps": 1e-06,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
    },
    "block_size": 8,
    "dflash_config": {
        "mask_token_id": 151669,
        "target_layer_ids": [1, 3, 5],
        "conv_kernel_size": 3,
        "conv_group_size": 128,
        "selector_rank": 64,
        "selector_top_k": 16,
        "final_logit_softcapping": 30.0,
    },
}


def test_every_layer_slides(tmp_path: Path) -> None:
    assert drafted(tmp_path, TARGET, DRAFTER, "dflash", 3) == [
        ("sliding_window", 4, "model.layers.64.self_attn.attn", 4, 128, 16, 32768, 2048, "FLASH_ATTN")
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"is_causal": True}, "is_causal must be false"),
        ({"layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, "layer_types"),
        ({"dflash_config": {**DRAFTER["dflash_config"], "conv_group_size": 3}}, "conv_group_size must divide"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(KvplanError, match=message):
        drafted(tmp_path, TARGET, {**DRAFTER, **changes}, "dflash", 3)
