"""A drafter's architecture is planned as a drafter only, and refused as a target with what to do."""

from __future__ import annotations

import pytest

from kvplan.errors import KvplanError, Refused
from kvplan.families import find
from tests.plan.test_budget import loaded


@pytest.mark.parametrize("architecture", ["DFlashDraftModel", "DSparkDraftModel", "LlamaForCausalLMEagle3"])
def test_a_drafters_architecture_says_that_it_is_one(architecture: str) -> None:
    with pytest.raises(Refused) as refused:
        find(architecture)
    assert str(refused.value) == (
        f"architecture {architecture!r} is a drafter's: name its target as MODEL, and the drafter with --drafter."
    )


def test_an_architecture_of_neither_kind_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="architecture 'NoSuchModel' is not one that kvplan plans exactly"):
        find("NoSuchModel")


def test_a_bundled_drafter_that_vllm_fails_on_is_not_to_be_edited() -> None:
    """vLLM 0.33.0 dies of it: 'Qwen3Config' object has no attribute 'markov_rank' (goldens of Qwen3.5)."""
    spec = '{"model": "SpecForge/Qwen3-8B-DSpark", "method": "dspark", "num_speculative_tokens": 5}'
    with pytest.raises(KvplanError, match="so vLLM itself fails on this drafter as it is; use another one, or a copy"):
        loaded("Qwen/Qwen3-8B", "--speculative-config", spec)
