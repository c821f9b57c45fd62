"""Block-wise FP8 needs whole blocks on every rank (vllm/model_executor/layers/quantization/utils/fp8_utils.py)."""

from __future__ import annotations

import json

import pytest

from kvplan import EngineArgs, PlanRequest, plan, sources
from kvplan.errors import DoesNotStart


def planned(model: str, tp: int, **args: object):
    return plan(PlanRequest(EngineArgs(model=model, tensor_parallel_size=tp, **args), gpu="H200", offline=True))


@pytest.fixture
def quantised_tower(tmp_path):
    """Qwen3.6 whose list of modules left alone names the tower as a whole, which vLLM does not find."""
    config = dict(sources.resolve("Qwen/Qwen3.6-35B-A3B-FP8", offline=True).config)
    scheme = {**config["quantization_config"], "modules_to_not_convert": ["lm_head", "model.visual"]}
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": scheme}))
    return str(tmp_path)


@pytest.mark.parametrize("tp", [2, 4])
def test_a_vision_tower_whose_projection_has_no_whole_blocks_keeps_vllm_from_starting(quantised_tower, tp):
    """The engine: "Weight input_size_per_partition = 576 is not divisible by weight quantization block_k = 128"."""
    with pytest.raises(DoesNotStart, match=rf"visual.blocks.0.attn.proj: a rank's input size {1152 // tp} "):
        planned(quantised_tower, tp)
    with pytest.raises(DoesNotStart):  # adapters split no layer otherwise
        planned(quantised_tower, tp, additional_flags={"enable_lora": True})


def test_without_the_split_or_its_quantisation_it_starts(quantised_tower):
    assert planned(quantised_tower, 1).selected == "main"
    with pytest.raises(DoesNotStart):  # vLLM builds the tower before it drops it
        planned(quantised_tower, 2, language_model_only=True)
    assert planned("Qwen/Qwen3.6-35B-A3B-FP8", 2).selected == "main"


def test_experts_without_whole_blocks_get_finer_ones():
    """768 / 8 = 96 is no multiple of 128, and vLLM 0.33.0 starts all the same."""
    assert planned("Qwen/Qwen3-30B-A3B-FP8", 8).selected == "main"


def test_nvfp4_needs_groups_of_sixteen_on_every_rank():
    """The engine, at 8 ranks: "Unsupported model when in features size is not multiple of 16"."""
    wider = {"text_config": {"intermediate_size": 21568}}
    model = "nvidia/Gemma-4-31B-IT-NVFP4"
    assert planned(model, 4, hf_overrides=wider).selected == "main"
    with pytest.raises(DoesNotStart, match=r"mlp.down_proj: a rank's input size 2696 is not a multiple of 16"):
        planned(model, 8, hf_overrides=wider)
