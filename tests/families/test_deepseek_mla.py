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


SPARSE = GLM_LITE | {"index_topk": 2048, "index_n_heads": 32, "index_head_dim": 128}


def test_the_field_index_topk_makes_every_layer_sparse_with_an_indexer(tmp_path: Path) -> None:
    found = planned(tmp_path, SPARSE | {"num_hidden_layers": 4, "index_topk_freq": 2}, "H200").layers
    names = [layer.name.removeprefix("model.layers.") for layer in found]
    assert names == [
        "0.self_attn.indexer.k_cache",
        "0.self_attn.attn",
        "1.self_attn.indexer.k_cache",
        "1.self_attn.attn",
        "2.self_attn.attn",
        "3.self_attn.indexer.k_cache",
        "3.self_attn.attn",
    ]
    assert {layer.spec.page_size_bytes for layer in found if "indexer" in layer.name} == {64 * 132}


@pytest.mark.parametrize("broken", [{"index_topk": None}, {"q_lora_rank": None}, {"index_head_dim": None}])
def test_an_indexer_needs_its_sizes(tmp_path: Path, broken: dict[str, Any]) -> None:
    with pytest.raises(KvplanError, match=next(iter(broken))):
        planned(tmp_path, SPARSE | broken, "H200")


DEEPSEEK_V2: dict[str, Any] = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "dtype": "bfloat16",
}


@pytest.mark.parametrize("field", ["n_group", "topk_group"])
def test_experts_whose_groups_are_null_as_in_the_config_class_keep_vllm_from_starting(
    tmp_path: Path, field: str
) -> None:
    """The engine: "num_expert_group and topk_group must be provided when use_grouped_topk is True"."""
    config = DEEPSEEK_V2 | {"n_group": 1, "topk_group": 1}
    assert planned(tmp_path, config, "H200").selected == "main"
    assert planned(tmp_path, DEEPSEEK_V2 | {"first_k_dense_replace": 32}, "H200").selected == "main"
    with pytest.raises(KvplanError, match=f"{field} is null"):
        planned(tmp_path, config | {field: None}, "H200")


def test_scaled_rotary_positions_of_any_kind_are_deepseeks_own_and_need_their_original_length(tmp_path: Path) -> None:
    """The engine: KeyError: 'original_max_position_embeddings'; with it, even a linear scaling starts."""
    config = DEEPSEEK_V2 | {"n_group": 1, "topk_group": 1, "rope_theta": 10000}
    linear = {"rope_type": "linear", "factor": 2.0}
    whole = config | {"rope_scaling": linear | {"original_max_position_embeddings": 4096}}
    assert planned(tmp_path, whole, "H200").selected == "main"
    with pytest.raises(KvplanError, match=r"rope_parameters.original_max_position_embeddings is missing"):
        planned(tmp_path, config | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "H200")
