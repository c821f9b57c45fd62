"""The model's length. Expectations are what vLLM 0.33.0 resolves."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import KvplanError, Refused
from tests.engine.deployments import LLAMA, QWEN3_5, resolved


@pytest.mark.parametrize(
    ("fields", "length"),
    [
        ({}, 131072),
        ({"max_position_embeddings": None}, 2048),
        ({"model_max_length": 65536}, 65536),
        ({"model_max_length": 300000}, 300000),
        ({"seq_length": 8192, "max_seq_len": 4096}, 4096),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 524288),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.5}}, 327680),
        ({"rope_scaling": {"rope_type": "ntk", "factor": 2.0}}, 262144),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, 131072),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, 131072),
        ({"rope_scaling": {"rope_type": "linear", "factor": None}}, 131072),
        ({"rope_scaling": {"type": "su"}, "original_max_position_embeddings": 4096}, 4096),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}}, 262144),
    ],
)
def test_length_follows_from_the_smallest_key_and_unscaled_rope(fields: dict[str, Any], length: int) -> None:
    assert resolved({**LLAMA, **fields}).max_model_len == length


def test_gemma3_is_already_scaled() -> None:
    text = {
        **QWEN3_5["text_config"],
        "model_type": "gemma3_text",
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    config = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}
    assert resolved(config).max_model_len == 262144


def test_auto_starts_from_the_derived_length() -> None:
    assert resolved(max_model_len=-1).max_model_len == 131072


def test_more_than_the_config_allows_is_refused_by_flag_and_field() -> None:
    with pytest.raises(Refused, match=r"200000 is more than the 131,072 .* \(max_position_embeddings\)"):
        resolved(max_model_len=200000)


def test_the_environment_allows_more() -> None:
    assert resolved(max_model_len=200000, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}).max_model_len == 200000


def test_a_config_without_length_takes_any_but_not_auto() -> None:
    bare = {k: v for k, v in LLAMA.items() if k != "max_position_embeddings"}
    assert resolved(bare, max_model_len=10_000_000).max_model_len == 10_000_000
    with pytest.raises(Refused, match=r"auto: .* names no length"):
        resolved(bare, max_model_len=-1)


def test_a_disabled_window_caps_the_length_and_is_gone_for_the_layers() -> None:
    config = resolved({**LLAMA, "sliding_window": 4096}, additional_flags={"disable_sliding_window": True})
    assert config.max_model_len == 4096
    assert config.target.text.get("sliding_window") is None


def test_window_zero_means_none() -> None:
    config = resolved({**LLAMA, "sliding_window": 0})
    assert config.max_model_len == 131072
    assert config.target.text.get("sliding_window") is None


@pytest.mark.parametrize("value", ["131072", -5, True, [1]])
def test_a_length_that_is_no_number_is_one_sentence(value: object) -> None:
    with pytest.raises(KvplanError, match="max_position_embeddings must be"):
        resolved({**LLAMA, "max_position_embeddings": value})
