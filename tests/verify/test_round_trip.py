"""Law: a log written from a release's plan agrees with it, whatever carries it; one that says otherwise never does."""

from __future__ import annotations

from functools import lru_cache

from hypothesis import given, settings
from hypothesis import strategies as st
from start_ups import attention_block, padding, read, start_up

from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.logs.rules import VERIFIED, rules_for
from kvplan.pipeline import PlanRequest, plan
from kvplan.planning.layer_set import CannotPlan
from kvplan.result import Result
from kvplan.verify.judge import Wanted, judge
from kvplan.verify.pool import ReleasePlan, release_plan
from kvplan.verify.respec import Base

LENGTH = 8192
OPTIONS = {"max_model_len": LENGTH, "max_num_batched_tokens": 4096, "enable_prefix_caching": False}
MODELS = (
    "Qwen/Qwen3-8B",
    "google/gemma-3-27b-it",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V3",
    "tiiuae/Falcon-H1-7B-Instruct",
)
CARRIED = {
    "plain": lambda line: line,
    "compose": lambda line: "vllm-1  | " + line,
    "kubectl": lambda line: "[pod/vllm-0/vllm] " + line,
    "quoted": lambda line: "> " + line,
    "times": lambda line: "2026-01-01T00:00:00.123456789Z " + line,
}


@lru_cache
def planned(model: str) -> Result:
    args = EngineArgs(model=model, kv_cache_memory_bytes=10**11, **OPTIONS)  # type: ignore[arg-type]
    return plan(PlanRequest(args=args, gpu="H200", offline=True))


@lru_cache
def made(model: str, release: str) -> ReleasePlan | None:
    result = planned(model)
    base = Base(result.config, result.layers, result.block_size, result.mamba_block_size)
    try:
        found = release_plan(rules_for(release), base, layout=result.layout.name, told_mode=None)
        found.group_blocks(LENGTH)
    except (CannotPlan, KvplanError):
        return None
    return found


def log_of(model: str, release: str, memory: int, *, times: int = 1) -> str | None:
    """What a start-up of the release prints with ``memory`` bytes; ``times`` as many tokens. None where it cannot."""
    found = made(model, release)
    if found is None:
        return None
    printed = found.printed(memory // found.block_bytes[0], LENGTH)
    further = [padding(bucket.layers, f"{bucket.percent:.2f}") for bucket in found.padding]
    if found.sizes.attention_block_size is not None:
        percent = found.sizes.state_padding_pct
        further += attention_block(found.sizes.attention_block_size, None if percent is None else f"{percent:.2f}")
    options = {key: value for key, value in OPTIONS.items() if key != "max_model_len"}
    return start_up(
        release, model, length=LENGTH, gib=round(memory / 2**30, 2), tokens=times * printed.kv_cache_size_tokens,
        concurrency=printed.concurrency_text, further=tuple(further), engine="enable_prefix_caching=False", **options,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    release=st.sampled_from(VERIFIED),
    memory=st.integers(8 * 10**9, 120 * 10**9),
    carried=st.sampled_from(sorted(CARRIED)),
)
def test_a_log_of_the_plan_agrees(model: str, release: str, memory: int, carried: str):
    text = log_of(model, release, memory)
    if text is None:
        return
    verdict = judge(read("\n".join(map(CARRIED[carried], text.split("\n")))), Wanted(offline=True, gpu="H200"))
    assert (verdict.refusal, verdict.first_cause) == (None, None)
    assert {"kv_cache_size_tokens", "max_concurrency"} <= {line.what for line in verdict.lines}


@settings(max_examples=30, deadline=None)
@given(model=st.sampled_from(MODELS), release=st.sampled_from(VERIFIED), memory=st.integers(8 * 10**9, 120 * 10**9))
def test_twice_the_tokens_never_agree(model: str, release: str, memory: int):
    text = log_of(model, release, memory, times=2)
    if text is not None:
        assert judge(read(text), Wanted(offline=True, gpu="H200")).exit_code == 1
