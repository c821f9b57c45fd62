"""Advice is what planning gave, never repeats what is set, and each line is a flag to paste."""

from __future__ import annotations

import pytest

from kvplan import EngineArgs, PlanRequest, plan
from kvplan.advice import PACKING, STARTING, advise
from kvplan.report.advice_text import advice_words

QWEN, DFLASH = "Qwen/Qwen3.6-35B-A3B-FP8", "z-lab/Qwen3.6-35B-A3B-DFlash"


def request(gpu: str, engine: str = "vllm-0.33.0", model: str = QWEN, drafter: str | None = DFLASH, **args: object):
    speculative = None if drafter is None else {"model": drafter, "num_speculative_tokens": 15}
    options = {"kv_cache_memory_bytes": 20 << 30, "max_model_len": 32768, **args}
    return PlanRequest(
        EngineArgs(model=model, speculative_config=speculative, **options), gpu=gpu, engine=engine, offline=True
    )


def found(wanted: PlanRequest):
    return advise(wanted, plan(wanted))


@pytest.mark.parametrize(
    ("gpu", "engine", "flags"),
    [
        ("H200", "vllm-0.33.0", ("VLLM_KV_CACHE_LAYOUT=BLNHC",)),
        ("B300", "vllm-0.33.0", ("VLLM_KV_CACHE_LAYOUT=BLHNC", "--attention-backend TRITON_ATTN")),
        ("B300", "vllm-next", ("--attention-backend TRITON_ATTN",)),
    ],
)
def test_packing_that_is_blocked_is_unblocked_by_the_named_flags(gpu, engine, flags):
    """facts.md of the engine: TRITON_ATTN packs by itself under vllm-next, FLASHINFER cannot split packed blocks."""
    first = found(request(gpu, engine))
    assert (first.aim, first.flags, first.grouping) == (PACKING, flags, "packed")


def test_what_the_advice_says_is_what_a_plan_with_it_gives():
    wanted = request("B300", "vllm-next")
    advice = found(wanted)
    with_it = plan(wanted._replace(args=wanted.args._replace(attention_backend="TRITON_ATTN")))
    assert with_it.selected == "packed"
    assert with_it.plans["packed"] == advice.after
    assert advice_words(advice) == (
        "--attention-backend TRITON_ATTN: 208,857 tokens instead of 143,513 (+45.5 %), packed into 5 groups instead "
        "of 10"
    )


def test_a_cache_that_cannot_be_bound_is_advised_a_backend_that_starts():
    wanted = request("B300", env={"VLLM_KV_CACHE_LAYOUT": "BLHNC"})
    advice = found(wanted)
    assert (advice.aim, advice.flags) == (STARTING, ("--attention-backend TRITON_ATTN",))
    assert advice_words(advice) == "--attention-backend TRITON_ATTN: starts, 208,857 tokens, 5 groups (packed)"


def test_advice_that_is_followed_is_not_given_again():
    wanted = request("B300", "vllm-next", attention_backend="TRITON_ATTN")
    advice = found(wanted)
    assert advice is None or (advice.aim != PACKING and "--attention-backend TRITON_ATTN" not in advice.flags)


def test_a_model_without_padding_gets_no_advice_and_costs_no_further_plan():
    wanted = request("H200", model="Qwen/Qwen3-8B", drafter=None)

    def run(_: PlanRequest):
        raise AssertionError("planned again")

    assert advise(wanted, plan(wanted), run) is None
