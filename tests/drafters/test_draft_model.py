"""A plain draft model: its family's layers under the prefix draft_model.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import V1, drafted

from kvplan.errors import Refused

LLAMA8, LLAMA70 = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
QWEN4, QWEN32 = "Qwen/Qwen3-4B", "Qwen/Qwen3-32B"


def test_its_familys_layers_under_a_prefix(tmp_path: Path) -> None:
    assert drafted(tmp_path, LLAMA70, LLAMA8, "draft_model", 4, tensor_parallel_size=4) == [
        ("full_attention", 32, "draft_model.model.layers.0.self_attn.attn", 2, 128, 16, 16384, None, "FLASH_ATTN")
    ]


def test_a_multimodal_one_lays_its_language_model_below(tmp_path: Path) -> None:
    name = "draft_model.language_model.model.layers.0.self_attn.attn"
    target, drafter = "Qwen/Qwen3-VL-32B-Instruct", "Qwen/Qwen3-VL-2B-Instruct"
    assert drafted(tmp_path, target, drafter, "draft_model", 3) == [
        ("full_attention", 28, name, 8, 128, 16, 65536, None, "FLASH_ATTN")
    ]


@pytest.mark.parametrize(("env", "backend"), [({}, "TRITON_ATTN"), (V1, "FLASHINFER")])
def test_only_the_v2_runner_takes_the_targets_backend(tmp_path: Path, env: dict[str, str], backend: str) -> None:
    options: dict[str, Any] = {"gpu": "B200", "attention_backend": "TRITON_ATTN", "env": env}
    assert drafted(tmp_path, QWEN32, QWEN4, "draft_model", 4, **options) == [
        ("full_attention", 36, "draft_model.model.layers.0.self_attn.attn", 8, 128, 16, 65536, None, backend)
    ]


def test_v1_needs_as_many_ranks_for_the_drafter(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tensor_parallel_size": 2, "env": V1, "speculative": {"draft_tensor_parallel_size": 1}}
    with pytest.raises(Refused, match="draft_tensor_parallel_size"):
        drafted(tmp_path, LLAMA70, LLAMA8, "draft_model", 4, **options)


def test_not_over_stages(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="pipeline"):
        drafted(tmp_path, QWEN32, QWEN4, "draft_model", 4, pipeline_parallel_size=2)


def test_not_with_state_layers(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="draft models with attention layers only"):
        drafted(tmp_path, "LiquidAI/LFM2-8B-A1B", "LiquidAI/LFM2-1.2B", "draft_model", 3)
