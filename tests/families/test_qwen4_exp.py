"""Qwen4: two kinds of state, indexed attention with a ring and compressed keys, aligned to the larger state.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_case import names, planned, rows

from kvplan.errors import KvplanError

TEXT = {
    "model_type": "qwen4_exp_text",
    "hidden_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "ple_layer_ids": [2],
    "indexer_n_heads": 16,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
    "output_gate_type": "silu",
    "eos_token_id": 248044,
    "mamba_ssm_dtype": "float32",
    "num_experts": 512,
    "num_experts_per_tok": 10,
}
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen4ExpForConditionalGeneration"],
    "model_type": "qwen4_exp",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": {"model_type": "qwen4_exp_vision", "out_hidden_size": 2048, "deepstack_visual_indexes": []},
}
TEXT_ONLY: dict[str, Any] = {**TEXT, "architectures": ["Qwen4ExpForCausalLM"], "dtype": "bfloat16"}
CONFIGS = (CONFIG, TEXT_ONLY)

P = "language_model.model.layers"


def changed(**fields: Any) -> dict[str, Any]:
    """The config with other fields of its text model; None takes one away."""
    text = {key: value for key, value in {**TEXT, **fields}.items() if value is not None}
    return {**CONFIG, "text_config": text}


def test_states_and_indexed_attention(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200") == [
        ("mamba", 7, f"{P}.0.linear_attn", 1088, 2228224),
        ("circular_buffer", 2, f"{P}.3.self_attn.indexer.raw_key_cache", 4, 1120),
        ("mla", 2, f"{P}.3.self_attn.indexer.compressed_key_cache", 1088, 69632),
        ("full_attention", 2, f"{P}.3.self_attn.attn", 1088, 2228224),
    ]


def test_the_packed_block(tmp_path: Path) -> None:
    result = planned(tmp_path, CONFIG, "B200", kv_cache_memory_bytes=100 * 2**30)
    plan = result.plans[result.selected]
    assert (result.layout.name, len(plan.groups), plan.bytes_per_block) == ("BLNHC", 6, 4595712)
    assert (plan.num_blocks, plan.blocks_per_request, plan.kv_cache_size_tokens) == (23363, 254, 24112087)


def test_a_layers_embeddings_come_before_its_state(tmp_path: Path) -> None:
    assert names(tmp_path, CONFIG, "H200")[:4] == [
        f"{P}.0.linear_attn",
        f"{P}.1.ple",
        f"{P}.1.linear_attn",
        f"{P}.2.linear_attn",
    ]


def test_the_embeddings_state_is_whole_on_every_rank(tmp_path: Path) -> None:
    layers = planned(tmp_path, CONFIG, "H200", tensor_parallel_size=8).layers
    assert next(layer.spec for layer in layers if layer.name.endswith(".ple")).shapes == ((9, 8192),)
    assert next(layer.spec for layer in layers if layer.name.endswith("linear_attn")).shapes[0] == (3, 1024)


def test_without_images_positions_have_one_axis(tmp_path: Path) -> None:
    assert ("circular_buffer", 2, "model.layers.3.self_attn.indexer.raw_key_cache", 4, 1024) in rows(
        tmp_path, TEXT_ONLY, "H200"
    )
    assert ("circular_buffer", 2, f"{P}.3.self_attn.indexer.raw_key_cache", 4, 1024) in rows(
        tmp_path, CONFIG, "H200", language_model_only=True
    )


def test_the_block_fits_the_larger_state_even_where_no_layer_has_it(tmp_path: Path) -> None:
    """A convolution over 8 streams of 65,536 channels outgrows the gated delta net, with or without its layers."""
    wide = changed(hidden_size=65536, hc_count=8, ple_layer_ids=[], linear_num_value_heads=16)
    tall = changed(hidden_size=65536, hc_count=8, ple_layer_ids=[1], linear_num_value_heads=16)
    sizes = {layer.spec.block_size for layer in planned(tmp_path, wide, "H200").layers if "linear" in layer.name}
    assert sizes == {layer.spec.block_size for layer in planned(tmp_path, tall, "H200").layers if "ple" in layer.name}
    assert sizes == {4608}


def test_without_an_index_attention_is_dense(tmp_path: Path) -> None:
    dense = changed(**{key: None for key in TEXT if key.startswith("indexer_")})
    assert [name for name in names(tmp_path, dense, "H200") if ".3." in name] == [f"{P}.3.self_attn.attn"]


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (changed(indexer_compress_ratio=32), {}),
        (changed(indexer_compress_ratio=3, indexer_budget=2049), {}),
        (changed(layer_types=["indexed_attention"] * 8, ple_layer_ids=[]), {}),
        (changed(output_gate_type=None), {}),
        ({**CONFIG, "vision_config": {}}, {}),
        (CONFIG, {"kv_cache_dtype": "fp8_e5m2"}),
        (CONFIG, {"dtype": "float16"}),
        (CONFIG, {"pipeline_parallel_size": 2}),
        (CONFIG, {"attention_config": {"indexer_kv_dtype": "mxfp4"}}),
        ({**CONFIG, "quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": {}}}, {}),
    ],
)
def test_what_vllm_does_not_build_is_refused(tmp_path: Path, config: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(KvplanError, match=r"\.$"):
        planned(tmp_path, config, "H200", **options)
