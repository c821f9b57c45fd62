"""Values that decide no cache and keep vLLM from starting are refused. Expectations are vLLM 0.33.0's."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.hf import read
from kvplan.sources import Source
from tests.engine.deployments import LLAMA, resolved


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "moe_intermediate_size", "vocab_size"])
@pytest.mark.parametrize("value", [-1, 8.0, 10**20])
def test_a_size_that_is_no_size_is_refused(key: str, value: Any) -> None:
    with pytest.raises(KvplanError, match=f"{key} must be an integer"):
        resolved({**LLAMA, key: value})


@pytest.mark.parametrize("value", [2**31, "yes?", []])
def test_an_encoder_flag_that_is_no_flag_is_refused(value: Any) -> None:
    with pytest.raises(KvplanError, match="is_encoder_decoder must be true or false"):
        resolved({**LLAMA, "is_encoder_decoder": value})


@pytest.mark.parametrize("value", ["10000", [], {}, 10**20, None])
def test_a_base_of_the_rotary_positions_must_be_a_number(value: Any) -> None:
    source = Source("m", "path", {**LLAMA, "intermediate_size": 8, "rope_theta": value}, "config.json")
    with pytest.raises(KvplanError, match="rope_theta must be a number"):
        read(source)


@pytest.mark.parametrize("value", [10000, 5e5, False])
def test_what_counts_as_a_number_is_read(value: Any) -> None:
    source = Source("m", "path", {**LLAMA, "intermediate_size": 8, "rope_theta": value}, "config.json")
    assert read(source).root.get("rope_parameters") == {"rope_theta": value, "rope_type": "default"}


def test_a_null_base_means_none_where_the_layers_need_none() -> None:
    hybrid = {"model_type": "olmo_hybrid", "layer_types": ["linear_attention", "full_attention"]}
    read(Source("m", "path", {**hybrid, "num_hidden_layers": 2, "rope_theta": None}, "config.json"))
