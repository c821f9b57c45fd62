"""What the grouped-query families share: head counts that divide, windows that are taken away, layers that differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import planned, rows

from kvplan.errors import KvplanError, Refused

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}
SLIDING = {**LLAMA, "sliding_window": 1024, "layer_types": ["sliding_attention", "full_attention"] * 2}
NAME = "model.layers.0.self_attn.attn"


def test_kv_heads_that_query_heads_cannot_share_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="32 attention heads cannot share 5 KV heads"):
        rows(tmp_path, {**LLAMA, "num_key_value_heads": 5})


def test_a_head_size_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="hidden_size"):
        rows(tmp_path, {**LLAMA, "hidden_size": 16, "head_dim": None})


def test_layers_keep_the_window_of_their_type(tmp_path: Path) -> None:
    assert rows(tmp_path, SLIDING) == [
        ("sliding_window", 2, NAME, 8, 128, 16, 65536, 1024),
        ("full_attention", 2, "model.layers.1.self_attn.attn", 8, 128, 16, 65536, None),
    ]


def test_disabling_the_window_makes_every_layer_full(tmp_path: Path) -> None:
    found = rows(tmp_path, SLIDING, additional_flags={"disable_sliding_window": True})
    assert found == [("full_attention", 4, NAME, 8, 128, 16, 65536, None)]


def test_a_window_of_zero_is_none(tmp_path: Path) -> None:
    assert rows(tmp_path, {**SLIDING, "sliding_window": 0}) == [("full_attention", 4, NAME, 8, 128, 16, 65536, None)]


def test_a_model_level_window_holds_in_every_layer(tmp_path: Path) -> None:
    found = rows(tmp_path, {**LLAMA, "sliding_window": 1024})
    assert found == [("sliding_window", 4, NAME, 8, 128, 16, 65536, 1024)]


def test_layers_that_differ_are_refused_where_the_model_class_cannot_read_them(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="per_layer_config"):
        rows(tmp_path, {**LLAMA, "per_layer_config": {"3": {"num_key_value_heads": 4}}})


def test_an_unknown_layer_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="layer_types"):
        rows(tmp_path, {**LLAMA, "layer_types": ["full_attention"] * 3 + ["reversed_attention"]})


MROPE = {
    "num_hidden_layers": 4,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e7,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
    },
}


@pytest.mark.parametrize(("size", "starts"), [(256, True), (128, False), (160, False)])
def test_rotary_axes_fill_the_rotated_half_of_a_head(tmp_path: Path, size: int, starts: bool) -> None:
    """11 + 11 + 10 is half of 256 x 0.25; vLLM's MRotaryEmbedding asserts it."""
    text = {**MROPE, "head_dim": size}
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "dtype": "bfloat16"}
    if starts:
        assert planned(tmp_path, {**config, "text_config": text}).selected == "main"
    else:
        with pytest.raises(KvplanError, match="mrope_section must add up to half of the"):
            planned(tmp_path, {**config, "text_config": text})
    alone = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "bfloat16"}
    assert planned(tmp_path, {**alone, **text}).selected == "main"  # text-only classes drop the axes


@pytest.mark.parametrize(("stages", "starts"), [(1, True), (2, True), (4, False)])
def test_some_mixtures_of_experts_want_experts_on_every_pipeline_stage(
    tmp_path: Path, stages: int, starts: bool
) -> None:
    """The engine, where the first of 4 stages has the dense layers 0 and 1: "No MoE layers found in the model."."""
    config = {
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
        "dtype": "bfloat16",
        "num_hidden_layers": 8,
        "first_k_dense_replace": 3,
        "head_dim": 128,
    }
    if starts:
        assert planned(tmp_path, config, pipeline_parallel_size=stages).selected == "main"
    else:
        with pytest.raises(Refused, match="layers 0 to 1 have no routed experts"):
            planned(tmp_path, config, pipeline_parallel_size=stages)


@pytest.mark.parametrize(("width", "starts"), [(3072, True), (4096, False)])
def test_long_rotary_factors_have_one_entry_for_each_frequency(tmp_path: Path, width: int, starts: bool) -> None:
    """48 factors are half of a head of 3072 / 32; the engine broadcasts them over the frequencies."""
    rope = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    config = {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "dtype": "bfloat16",
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "pad_token_id": 0,
        "rope_scaling": rope,
    }
    if starts:
        assert planned(tmp_path, config).selected == "main"
    else:
        with pytest.raises(KvplanError, match="short_factor must have as many entries as half of the 128"):
            planned(tmp_path, config)
