"""Each decoding sequence of a model with states needs a block (vllm/config/compilation.py)."""

from __future__ import annotations

import pytest

from kvplan import EngineArgs, PlanRequest, plan


def notes(model: str, memory: int, **args: object) -> list[str]:
    options = EngineArgs(model=model, kv_cache_memory_bytes=memory, max_model_len=8192, **args)
    result = plan(PlanRequest(options, gpu="H200", offline=True))
    return [note for note in result.plans[result.selected].notes if "--max-num-seqs" in note]


def test_more_sequences_than_blocks_are_told_with_the_number_that_fits():
    assert notes("Qwen/Qwen3.6-35B-A3B-FP8", 4 << 30) == [
        "--max-num-seqs 1024 is more than the 192 blocks of the pool: with full CUDA graphs, its default, vLLM does "
        "not start; set --max-num-seqs 192 or less"
    ]


@pytest.mark.parametrize(
    ("model", "args"),
    [
        ("Qwen/Qwen3.6-35B-A3B-FP8", {"max_num_seqs": 192}),
        ("Qwen/Qwen3.6-35B-A3B-FP8", {"additional_flags": {"enforce_eager": True}}),
        ("Qwen/Qwen3-8B", {}),
    ],
)
def test_nothing_is_told_where_they_suffice_or_no_graph_is_captured(model, args):
    assert notes(model, 4 << 30, **args) == []
