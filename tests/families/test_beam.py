"""Beam: sliding layers with a full layer every few.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError

CONFIG: dict[str, Any] = {
    "architectures": ["BeamForCausalLM"],
    "model_type": "beam",
    "dtype": "bfloat16",
    "vocab_size": 151936,
    "hidden_size": 5120,
    "intermediate_size": 20480,
    "num_hidden_layers": 8,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "sliding_window": 512,
    "layer_types": [
        "sliding_attention",
        "sliding_attention",
        "sliding_attention",
        "sliding_attention",
        "sliding_attention",
        "full_attention",
        "sliding_attention",
        "full_attention",
    ],
    "mlp_layer_types": ["dense", "dense", "dense", "sparse", "sparse", "sparse", "sparse", "sparse"],
    "moe_intermediate_size": 2560,
    "num_experts": 32,
    "n_group": 8,
    "topk_group": 4,
    "routed_scaling_factor": 2.5,
    "final_logit_softcapping": 30.0,
    "rope_parameters": {
        "sliding_attention": {
            "rope_type": "default",
            "rope_theta": 10000.0,
        },
        "full_attention": None,
    },
}
CONFIGS = (CONFIG,)


def test_windows_and_full_layers(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("sliding_window", 6, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, 512),
        ("full_attention", 2, "model.layers.5.self_attn.attn", 8, 128, 16, 65536, None),
    ]


def test_without_layer_types_every_layer_slides(tmp_path: Path) -> None:
    own = ("layer_types", "mlp_layer_types", "rope_parameters", "head_dim")
    config = {key: value for key, value in CONFIG.items() if key not in own} | {"num_attention_heads": 40}
    assert rows(tmp_path, config, "H200") == [
        ("sliding_window", 8, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, 512)
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tie_word_embeddings": True}, "tie_word_embeddings is true"),
        ({"rope_parameters": {"full_attention": None}}, "rope_parameters must hold one kind of layer's parameters"),
        ({"layer_types": ["sliding_attention"]}, "layer_types"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(KvplanError, match=message):
        rows(tmp_path, {**CONFIG, **changes}, "H200")
