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
        "--max-num-seqs 1024 is more than the 192 blocks of the pool: with full CUDA graphs vLLM does not start; "
        "set --max-num-seqs 192 or less"
    ]


@pytest.mark.parametrize(
    ("model", "args"),
    [
        ("Qwen/Qwen3.6-35B-A3B-FP8", {"max_num_seqs": 192}),
        ("Qwen/Qwen3.6-35B-A3B-FP8", {"additional_flags": {"enforce_eager": True}}),
        ("Qwen/Qwen3.6-35B-A3B-FP8", {"additional_flags": {"optimization_level": "0"}}),
        ("Qwen/Qwen3.6-35B-A3B-FP8", {"additional_flags": {"optimization_level": "1"}}),
        ("Qwen/Qwen3.6-35B-A3B-FP8", {"additional_flags": {"compilation_config": {"cudagraph_mode": "PIECEWISE"}}}),
        ("Qwen/Qwen3-8B", {}),
    ],
)
def test_nothing_is_told_where_they_suffice_or_no_graph_is_captured(model, args):
    assert notes(model, 4 << 30, **args) == []


@pytest.mark.parametrize(
    "flags",
    [
        {"compilation_config": {"cudagraph_mode": "FULL_DECODE_ONLY"}},
        {"compilation_config": {"cudagraph_mode": 2}},
        {"compilation_config": {"mode": 0}},
        {"optimization_level": "1", "compilation_config": {"cudagraph_mode": "FULL"}},
        {"optimization_level": "3"},
        {"cudagraph_capture_sizes": [1]},
    ],
)
def test_every_mode_with_full_graphs_is_told(flags):
    assert len(notes("Qwen/Qwen3.6-35B-A3B-FP8", 4 << 30, additional_flags=flags)) == 1


def test_decodes_with_drafts_that_the_backend_does_not_capture_have_no_full_graphs():
    """FlashInfer below Hopper takes uniform batches; with its TRT-LLM kernels off, later ones take single tokens."""
    spec = {"method": "mtp", "num_speculative_tokens": 2}
    flashinfer = {"speculative_config": spec, "attention_backend": "FLASHINFER"}
    assert len(notes("Qwen/Qwen3.6-35B-A3B-FP8", 4 << 30, **flashinfer)) == 1
    single = {**flashinfer, "attention_config": {"use_trtllm_attention": False}}
    assert notes("Qwen/Qwen3.6-35B-A3B-FP8", 4 << 30, **single) == []


def test_a_largest_graph_without_room_for_a_drafting_decode_keeps_the_v1_runner_from_starting():
    spec = {"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 3}
    env = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    for sizes, error in (([1, 2], "the largest CUDA graph that is asked for, of 2 tokens"), ([1, 4], None)):
        flags = {"cudagraph_capture_sizes": sizes}
        options = EngineArgs("Qwen/Qwen3-8B", speculative_config=spec, env=env, additional_flags=flags)
        result = plan(PlanRequest(options, gpu="H200", offline=True))
        found = result.plans[result.selected].error
        assert found is None if error is None else found is not None and found.startswith(error)
