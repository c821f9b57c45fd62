"""The public functions as a program meets them: what is wrong in a request is one sentence that names the field."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan import EngineArgs, KvplanError, PlanRequest, compare, plan


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": None}, "model None must be a string."),
        ({"kv_cache_memory_bytes": "60GiB"}, "kv_cache_memory_bytes '60GiB' must be a whole number or None."),
        ({"kv_cache_memory_bytes": 6e10}, "kv_cache_memory_bytes 60000000000.0 must be a whole number or None."),
        ({"kv_cache_memory_bytes": True}, "kv_cache_memory_bytes True must be a whole number or None."),
        ({"speculative_config": "x"}, "speculative_config 'x' must be a dict or None."),
        ({"speculative_config": {1: 2}}, "speculative_config {1: 2} must be a dict or None."),
        ({"tensor_parallel_size": "2"}, "tensor_parallel_size '2' must be a whole number."),
        ({"enable_prefix_caching": "no"}, "enable_prefix_caching 'no' must be True, False or None."),
        ({"trust_remote_code": 1}, "trust_remote_code 1 must be True or False."),
        ({"gpu_memory_utilization": None}, "gpu_memory_utilization None must be a number."),
        ({"kv_cache_dtype_skip_layers": "abc"}, "kv_cache_dtype_skip_layers 'abc' must be a tuple of strings."),
        ({"env": {"VLLM_X": 3}}, "env {'VLLM_X': 3} must be a dict of strings."),
        ({"min_kv_cache_group_layers": 0}, "min_kv_cache_group_layers 0 must be at least 1."),
    ],
)
def test_an_option_of_another_type_is_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KvplanError) as told:
        plan(PlanRequest(EngineArgs(**{"model": "Qwen/Qwen3-8B", **options}), offline=True))
    assert str(told.value) == f"EngineArgs: {sentence}"


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"engine": "vllm-nxt"}, "engine 'vllm-nxt' is not known; choose one of vllm-0.33.0, vllm-next."),
        ({"layout_cost_check": None}, "layout_cost_check None is not known; choose one of padding, worst-case."),
        ({"layout_agreement": "x"}, "layout_agreement 'x' is not known; choose one of strict, intersect."),
        ({"gpu": 3}, "gpu 3 must be a GPU's name, such as 'H200', or None."),
        ({"args": "Qwen/Qwen3-8B"}, "args 'Qwen/Qwen3-8B' must be an EngineArgs, such as EngineArgs('Qwen/Qwen3-8B')."),
        *(
            (
                {"available_memory_bytes": memory},
                f"available_memory_bytes {memory!r} must be a tuple of whole numbers, one for each pipeline stage, or "
                "None.",
            )
            for memory in (60, (), ("60GiB",), (-1,), (1.5,))
        ),
    ],
)  # fmt: skip
def test_a_choice_that_is_not_known_is_named(own: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KvplanError) as told:
        plan(PlanRequest(**{"args": EngineArgs("Qwen/Qwen3-8B"), "offline": True, **own}))
    assert str(told.value) == f"PlanRequest: {sentence}"


def test_an_empty_gpu_is_none_that_is_known() -> None:
    with pytest.raises(KvplanError, match=r"^--gpu '' is not a GPU that kvplan knows; did you mean A100 40GB, "):
        plan(PlanRequest(EngineArgs("Qwen/Qwen3-8B"), gpu="", offline=True))


@pytest.mark.parametrize("wrong", [None, "Qwen/Qwen3-8B", EngineArgs("Qwen/Qwen3-8B")])
def test_what_is_no_request_is_told(wrong: Any) -> None:
    with pytest.raises(KvplanError, match=r"^plan takes a PlanRequest, not \w+; give PlanRequest\(EngineArgs"):
        plan(wrong)


def test_compare_takes_results() -> None:
    result = plan(PlanRequest(EngineArgs("Qwen/Qwen3-8B"), offline=True))
    sentence = r"^compare takes a Result and a list of Results, not \w+; plan\(request\) gives one\.$"
    for arguments in ((None, []), (result, None), (result, result), (result, [None])):
        with pytest.raises(KvplanError, match=sentence):
            compare(*arguments)  # type: ignore[arg-type]


def test_dir_shows_what_is_public() -> None:
    assert dir(kvplan) == sorted(kvplan.__all__)
