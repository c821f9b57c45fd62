"""A KV budget per pipeline stage: the stage that holds the fewest blocks decides for all."""

from __future__ import annotations

import pytest

from kvplan import EngineArgs, KvplanError, PlanRequest, plan
from kvplan.request import stage_budgets

GIB = 1 << 30


def planned(budgets, stages: int = 2):
    args = EngineArgs(model="Qwen/Qwen3-8B", pipeline_parallel_size=stages, max_model_len=8192)
    return plan(PlanRequest(args, gpu="H200", offline=True, available_memory_bytes=budgets)).plans["main"]


@pytest.mark.parametrize("budgets", [(2 * GIB, GIB), (GIB, 2 * GIB), (GIB, GIB)])
def test_the_smaller_budget_decides(budgets):
    assert planned(budgets).num_blocks == GIB // (18 * 65536)  # 18 of the 36 layers on each stage


@pytest.mark.parametrize(("budgets", "stages"), [((GIB,), 2), ((GIB, GIB), 1), ((GIB,) * 3, 2)])
def test_another_number_of_budgets_than_stages_is_refused(budgets, stages):
    with pytest.raises(KvplanError, match=rf"lists {len(budgets)} sizes for --pipeline-parallel-size {stages}"):
        planned(budgets, stages)


def test_a_list_is_taken_out_of_the_words_and_one_size_is_left_to_vllms_reader():
    flag = "--kv-cache-memory-bytes"
    assert stage_budgets(["m", flag, "2GiB,1GiB", "-pp", "2"]) == (["m", "-pp", "2"], (2 * GIB, GIB))
    assert stage_budgets(["m", f"{flag}=2K,1K"]) == (["m"], (2048, 1024))
    assert stage_budgets(["m", flag, "2GiB"]) == (["m", flag, "2GiB"], None)
    assert stage_budgets(["m", flag]) == (["m", flag, ""], None)
