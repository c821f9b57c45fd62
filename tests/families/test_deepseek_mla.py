"""DeepSeek's multi-head latent attention under other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import planned

from kvplan.errors import KvplanError

GLM_LITE: dict[str, Any] = {
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "model_type": "glm4_moe_lite",
    "dtype": "bfloat16",
    "num_hidden_layers": 4,
    "first_k_dense_replace": 1,
}


def test_glm_4_moe_lite_needs_the_field_that_its_config_class_lacks(tmp_path: Path) -> None:
    assert {layer.spec.page_size_bytes for layer in planned(tmp_path, GLM_LITE, "H200").layers} == {16 * 576 * 2}
    without = {key: value for key, value in GLM_LITE.items() if key != "first_k_dense_replace"}
    with pytest.raises(KvplanError, match="first_k_dense_replace is missing"):
        planned(tmp_path, without, "H200")


def test_an_indexer_that_the_field_index_topk_switches_on_is_not_overlooked(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="index_topk is set, and kvplan plans Glm4MoeLiteForCausalLM without"):
        planned(tmp_path, GLM_LITE | {"index_topk": 2048}, "H200")
