"""What a drafter takes over from the target, by runner and method, and what vLLM refuses to draft with.

Expected values: how vLLM 0.33.0 builds the same drafters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine.args import EngineArgs
from kvplan.errors import Refused
from kvplan.model import Model
from kvplan.pipeline import PlanRequest, plan
from kvplan.result import Result
from kvplan.sides import drafter_model, target_model

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
EAGLE3 = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
DFLASH = "z-lab/Qwen3-8B-DFlash-b16"
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def planned(target: str, speculative: Mapping[str, Any], **options: Any) -> Result:
    return plan(PlanRequest(EngineArgs(target, speculative_config=dict(speculative), **options), gpu="H200"))


def drafter(target: str, speculative: Mapping[str, Any], **options: Any) -> Model:
    engine = planned(target, speculative, **options).config
    found = drafter_model(engine, target_model(engine))
    assert found is not None
    return found


def using(model: str, method: str, **keys: Any) -> dict[str, Any]:
    return {"model": model, "method": method, "num_speculative_tokens": 3, **keys}


def test_the_v2_runner_hands_the_targets_backend_down() -> None:
    options: dict[str, Any] = {"attention_backend": "FLASHINFER"}
    assert drafter(LLAMA, using(EAGLE3, "eagle3"), **options).attention_backend == "FLASHINFER"
    own = using(EAGLE3, "eagle3", attention_backend="TRITON_ATTN")
    assert drafter(LLAMA, own, **options).attention_backend == "TRITON_ATTN"


def test_the_v1_runner_does_not() -> None:
    got = drafter(LLAMA, using(EAGLE3, "eagle3"), attention_backend="FLASHINFER", env=V1)
    assert got.attention_backend is None


def test_a_block_drafter_selects_its_own_backend_and_attends_both_ways() -> None:
    got = drafter("Qwen/Qwen3-8B", using(DFLASH, "dflash"), attention_backend="FLASHINFER")
    assert (got.attention_backend, got.use_non_causal) == (None, True)


def test_a_cache_dtype_of_its_own() -> None:
    got = drafter(LLAMA, using(EAGLE3, "eagle3", kv_cache_dtype="bfloat16"), kv_cache_dtype="fp8")
    assert (got.cache_dtype, got.owns_cache_dtype) == ("bfloat16", True)


def test_its_layers_are_split_over_the_targets_ranks() -> None:
    got = drafter(LLAMA, using(EAGLE3, "eagle3", draft_tensor_parallel_size=1), tensor_parallel_size=4)
    assert got.tensor_parallel_size == 4


def test_layers_are_numbered_after_the_targets_or_from_0() -> None:
    after = drafter(LLAMA, using(EAGLE3, "eagle3"))
    from_0 = drafter("meta-llama/Llama-3.1-70B-Instruct", using(LLAMA, "draft_model"), tensor_parallel_size=4)
    assert (after.start_layer, from_0.start_layer) == (32, 0)


@pytest.mark.parametrize("method", ["ngram", "ngram_gpu"])
def test_methods_without_a_model_cache_nothing(method: str) -> None:
    result = planned(LLAMA, {"method": method, "num_speculative_tokens": 4})
    assert {layer.owner for layer in result.layers} == {"target"}
    assert drafter_model(result.config, target_model(result.config)) is None


def test_a_target_that_hands_no_hidden_states_out() -> None:
    drafting = using("SpecForge/Gemma-3-27B-eagle3", "eagle3")
    with pytest.raises(Refused, match="Gemma3ForConditionalGeneration does not give a drafter its inner hidden states"):
        planned("google/gemma-3-27b-it", drafting)


def test_hidden_states_over_stages() -> None:
    drafting = using("SpecForge/Qwen3-VL-30B-A3B-eagle3", "eagle3")
    with pytest.raises(Refused, match="over pipeline stages"):
        planned("Qwen/Qwen3-VL-30B-A3B-Instruct", drafting, pipeline_parallel_size=2)


def test_a_drafter_of_another_width(tmp_path: Path) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "vocab_size": 128256}
    config |= {"num_hidden_layers": 1, "num_attention_heads": 32, "dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(Refused, match="width 2048, and the target's have 4096"):
        planned(LLAMA, using(str(tmp_path), "eagle"))
