"""Muse Spark: three sliding layers to one full layer, counted back from the last.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_case import planned, rows

from kvplan.errors import KvplanError

TEXT: dict[str, Any] = {
    "model_type": "muse_spark_text",
    "vocab_size": 202048,
    "hidden_size": 8192,
    "num_hidden_layers": 62,
    "num_attention_heads": 128,
    "num_key_value_heads": 16,
    "head_dim": 64,
    "max_position_embeddings": 1048576,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    "attention_bias": False,
    "sliding_window": 2048,
    "layer_types": ["full_attention" if i % 4 == 1 else "sliding_attention" for i in range(62)],
    "layer_rope_theta": [0 if i % 4 == 1 else 500000.0 for i in range(62)],
    "mlp_layer_types": ["sparse"] * 62,
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
}
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
    "text_config": TEXT,
    "vision_config": VISION,
    "audio_config": AUDIO,
    "out_hidden_size": 6144,
    "projector_hidden_size": 4096,
}
CONFIGS = (CONFIG,)


def changed(**fields: Any) -> dict[str, Any]:
    """The config with other fields of its text model; None takes one away."""
    text = {key: value for key, value in {**TEXT, **fields}.items() if value is not None}
    return {**CONFIG, "text_config": text}


def test_three_sliding_to_one_full(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, changed(layer_types=["full_attention"] * 62), "H200", tensor_parallel_size=8)
    assert row == ("full_attention", 62, "model.layers.0.self_attn.attn", 16, 8192)
    assert rows(tmp_path, CONFIG, "H200", tensor_parallel_size=8) == [
        ("sliding_window", 46, "model.layers.0.self_attn.attn", 16, 8192),
        ("full_attention", 16, "model.layers.1.self_attn.attn", 16, 8192),
    ]


def test_the_plan_of_one_rank(tmp_path: Path) -> None:
    result = planned(tmp_path, CONFIG, "B200", kv_cache_memory_bytes=100 * 2**30)
    plan = result.plans[result.selected]
    assert (result.layout.name, len(plan.groups), plan.bytes_per_block) == ("LBHNC", 4, 1048576)
    assert (plan.num_blocks, plan.blocks_per_request, plan.kv_cache_size_tokens) == (102400, 72067, 1489921)


@pytest.mark.parametrize(
    ("config", "options", "says"),
    [
        (changed(num_shared_experts=1), {}, "num_shared_experts"),
        (changed(hidden_act="gelu"), {}, "hidden_act"),
        (changed(layer_rope_theta=[1.0]), {}, "62 entries"),
        (changed(layer_types=None), {}, "layer_types is missing"),
        (changed(layer_types=["chunked_attention"] * 62), {}, "layer_types"),
        (changed(mlp_layer_types=["dense"] * 62), {}, "intermediate_size is missing"),
        (changed(moe_hidden_size=None), {}, "moe_hidden_size is missing"),
        ({**CONFIG, "audio_config": None}, {}, "audio_config"),
        ({**CONFIG, "out_hidden_size": 1536}, {}, "6144"),
        (CONFIG, {"tensor_parallel_size": 32}, "repeats none"),
    ],
)
def test_what_vllm_does_not_build_is_refused(
    tmp_path: Path, config: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(KvplanError, match=says):
        planned(tmp_path, config, "H200", **options)
