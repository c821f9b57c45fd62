"""extract_hidden_states: one layer that keeps the target's hidden states of some layers.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import drafted

from kvplan.errors import Refused

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def keeping(*ids: int) -> dict[str, Any]:
    return {"draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": list(ids)}}}


def test_a_head_for_each_layer_kept(tmp_path: Path) -> None:
    assert drafted(tmp_path, LLAMA, None, "extract_hidden_states", 1, speculative=keeping(1, 2)) == [
        ("hidden_state", 1, "cache_only_layers.32", 2, 4096, 16, 262144, None, "CACHE_ONLY_ATTN")
    ]


def test_the_states_are_whole_on_every_rank_and_never_quantized(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tensor_parallel_size": 4, "kv_cache_dtype": "fp8"}
    speculative = keeping(2, 16, 29)
    assert drafted(tmp_path, LLAMA, None, "extract_hidden_states", 1, speculative=speculative, **options) == [
        ("hidden_state", 1, "cache_only_layers.32", 3, 4096, 16, 393216, None, "CACHE_ONLY_ATTN")
    ]


def test_beside_mla(tmp_path: Path) -> None:
    options: dict[str, Any] = {"gpu": "B200", "tensor_parallel_size": 8, "speculative": keeping(3, 30)}
    assert drafted(tmp_path, "deepseek-ai/DeepSeek-V3", None, "extract_hidden_states", 1, **options) == [
        ("hidden_state", 1, "cache_only_layers.61", 2, 7168, 32, 917504, None, "CACHE_ONLY_ATTN")
    ]


def test_without_layers_to_keep(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="eagle_aux_hidden_state_layer_ids"):
        drafted(tmp_path, LLAMA, None, "extract_hidden_states", 1)


def test_not_over_stages(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="pipeline"):
        drafted(tmp_path, LLAMA, None, "extract_hidden_states", 1, speculative=keeping(3), pipeline_parallel_size=2)
