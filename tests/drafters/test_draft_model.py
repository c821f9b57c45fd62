"""A plain draft model: its family's layers under the prefix draft_model.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drafter_case import LLAMA_DRAFTER, V1, drafted, planned

from kvplan.errors import Refused
from kvplan.spec import StateSpec

LLAMA8, LLAMA70 = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
LFM1, LFM8 = "LiquidAI/LFM2-1.2B", "LiquidAI/LFM2-8B-A1B"
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


def test_states_lie_with_the_targets_states(tmp_path: Path) -> None:
    result = planned(tmp_path, LFM8, LFM1, "draft_model", 3)
    states = [layer for layer in result.layers if isinstance(layer.spec, StateSpec)]
    assert {layer.spec for layer in states if layer.owner == "drafter"} == {states[0].spec}
    assert [len(group.layers) for group in result.plans["main"].groups] == [10, 9, 9, 12]
    assert result.plans["main"].bytes_per_block == 393216


def test_states_are_named_as_their_class_cuts_the_prefix(tmp_path: Path) -> None:
    falcon = "tiiuae/Falcon-H1-7B-Instruct"
    names = [layer.name for layer in planned(tmp_path, falcon, falcon, "draft_model", 3).layers][88:90]
    assert names == ["draft_model.model.layers.0.attn", "draft_model.44.mixer"]
    with pytest.raises(Refused, match=r"name a layer of the drafter 9\.mixer"):
        planned(tmp_path, "Zyphra/Zamba2-2.7B", "Zyphra/Zamba2-2.7B", "draft_model", 3)


@pytest.mark.parametrize(("target", "env"), [(LFM8, V1), ({**LLAMA_DRAFTER, "vocab_size": 65536}, {})])
def test_no_states_with_v1_or_beside_attention_alone(tmp_path: Path, target: Any, env: dict[str, str]) -> None:
    with pytest.raises(Refused, match="is no attention layer"):
        planned(tmp_path, target, LFM1, "draft_model", 3, env=env)


def test_the_v2_runner_splits_a_cache_over_context_ranks_that_the_drafter_does_not_know(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tensor_parallel_size": 8, "decode_context_parallel_size": 2}
    moe, small = "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-0.6B"
    plan = planned(tmp_path, moe, small, "draft_model", 4, **options).plans["main"]
    assert (len(plan.groups), plan.bytes_per_block) == (1, 622592)
    with pytest.raises(Refused, match="needs more tensor-parallel ranks than 8 KV heads"):
        planned(tmp_path, moe, small, "draft_model", 4, env=V1, **options)


def test_a_class_of_the_users_own_is_refused_and_a_file_of_a_config_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "draft.json").write_text(json.dumps({**LLAMA_DRAFTER, "vocab_size": 151936}), encoding="utf-8")
    options = {"num_speculative_tokens": 3}
    with pytest.raises(Refused, match="drafters of your own"):
        planned(tmp_path, "Qwen/Qwen3-8B", None, None, None, speculative={**options, "model": "my.Proposer"})
    result = planned(tmp_path, "Qwen/Qwen3-8B", None, None, None, speculative={**options, "model": "draft.json"})
    assert result.drafter is not None
    assert (result.drafter.method, result.drafter.architecture) == ("draft_model", "LlamaForCausalLM")
