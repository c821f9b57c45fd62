"""Muse Spark's DSpark drafter: a cycle of windows over dense layers, numbered after the target's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_draft_case import draft_rows

from kvplan.errors import KvplanError

VISION: dict[str, Any] = {
    "hidden_size": 1536,
    "merge_size": 2,
    "hidden_act": "gelu",
    "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0},
    "num_hidden_layers": 2,
    "layer_types": ["full_attention", "window_attention"],
    "num_attention_heads": 16,
    "intermediate_size": 6144,
    "layer_norm_eps": 1e-5,
    "patch_size": 14,
    "patch_temporal": 2,
    "pos_emb_height": 64,
    "pos_emb_width": 64,
}
AUDIO: dict[str, Any] = {
    "out_hidden_size": 8192,
    "hidden_act": "gelu",
    "num_hidden_layers": 2,
    "patch_sizes": [2, 2],
    "depths": [1, 1],
    "hidden_sizes": [512, 1024],
    "num_attention_heads": 8,
    "conv_kernel_size": 3,
    "mlp_ratio": 4,
    "rms_norm_eps": 1e-5,
}
CONFIG: dict[str, Any] = {
    "architectures": ["MuseSparkForConditionalGeneration"],
    "model_type": "muse_spark",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "muse_spark_text",
        "vocab_size": 202048,
        "hidden_size": 8192,
        "num_hidden_layers": 8,
        "num_attention_heads": 128,
        "num_key_value_heads": 16,
        "head_dim": 64,
        "max_position_embeddings": 1048576,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        "attention_bias": False,
        "sliding_window": 2048,
        "layer_types": ["sliding_attention"] * 7 + ["full_attention"],
        "layer_rope_theta": [500000.0] * 7 + [0],
        "mlp_layer_types": ["sparse"] * 8,
        "final_logit_softcapping": 20.0,
        "qk_scale_factor": 5.473,
        "output_multiplier": 0.177,
        "post_norm_eps": 1e-8,
        "hidden_act": "silu",
        "moe_intermediate_size": 4096,
        "moe_hidden_size": 4096,
        "num_local_experts": 256,
        "num_experts_per_tok": 8,
        "num_shared_experts": 0,
        "routed_scaling_factor": 1.0,
        "residual_gate_temperature": 0.3,
        "tie_word_embeddings": False,
    },
    "vision_config": VISION,
    "audio_config": AUDIO,
    "out_hidden_size": 6144,
    "projector_hidden_size": 4096,
}
DRAFTER: dict[str, Any] = {
    "architectures": ["MuseSparkDSparkModel"],
    "model_type": "muse_spark_dspark",
    "dtype": "bfloat16",
    "hidden_size": 8192,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 202048,
    "draft_vocab_size": 32000,
    "max_position_embeddings": 1048576,
    "moe": {"is_enabled": False},
    "target_layer_ids": [1, 3, 5],
    "target_hidden_size": 8192,
    "mask_token_id": 200090,
    "markov_rank": 256,
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
    "block_size": 7,
    "global_attn_cfg": [2048],
    "draft_position_mode": "rope",
}
DSPARK = {"method": "dspark", "num_speculative_tokens": 3}


def kinds(folder: Path, **fields: Any) -> list[str]:
    """The kind of each layer of a drafter with other fields, numbered from 8 on."""
    found = draft_rows(folder, CONFIG, "H200", {**DRAFTER, **fields}, speculative=DSPARK)
    assert [name for name, *_ in found] == [f"model.layers.{8 + i}.self_attn.attn" for i in range(len(found))]
    assert {row[2:] for row in found} == {(16, 65536)}
    return [kind for _, kind, *_ in found]


SLIDING, FULL = "sliding_window", "full_attention"


def test_one_window_for_all_layers(tmp_path: Path) -> None:
    assert kinds(tmp_path) == [SLIDING] * 4


def test_all_layers_are_full_without_windows(tmp_path: Path) -> None:
    assert kinds(tmp_path, global_attn_cfg="all") == [FULL] * 4
    assert kinds(tmp_path, global_attn_cfg=None) == [FULL] * 4


def test_the_cycle_runs_on_from_the_targets_last_layer(tmp_path: Path) -> None:
    found = kinds(tmp_path, global_attn_cfg=[1024, 1024, 0], num_hidden_layers=5)
    assert found == [FULL, SLIDING, SLIDING, FULL, SLIDING]


def test_a_cycle_without_rotary_positions_ends_with_the_last_layer(tmp_path: Path) -> None:
    fields = {"global_attn_cfg": "[512,0]", "every_n_layers_nope": 2, "draft_position_mode": "nope"}
    assert kinds(tmp_path, **fields) == [SLIDING, FULL, SLIDING, FULL]


@pytest.mark.parametrize(
    "fields",
    [
        {"moe": {"is_enabled": True}},
        {"every_n_layers_nope": 2, "global_attn_cfg": [512, 0]},
        {"mask_token_id": None},
        {"target_layer_ids": None},
    ],
)
def test_what_vllm_does_not_build_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    drafter = {key: value for key, value in {**DRAFTER, **fields}.items() if value is not None}
    with pytest.raises(KvplanError, match=r"\.$"):
        draft_rows(tmp_path, CONFIG, "H200", drafter, speculative=DSPARK)
