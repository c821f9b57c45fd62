"""How many GPUs a deployment takes, and whose cache the numbers are of."""

from __future__ import annotations

from kvplan.report.decision import decide, gpu_words
from tests.plan.test_budget import loaded


def test_data_parallel_engines_take_gpus_of_their_own_and_have_a_cache_each():
    """vLLM counts TP x PCP x PP x DP (`world_size_across_dp`), and sizes the cache of every engine alone."""
    alone, _ = loaded("Qwen/Qwen3-8B", "--kv-cache-memory-bytes", "20GiB")
    both, _ = loaded("Qwen/Qwen3-8B", "-dp", "2", "--kv-cache-memory-bytes", "20GiB")
    assert both.plans["main"].num_blocks == alone.plans["main"].num_blocks
    assert decide(alone).sentence.startswith(
        "It fits on one H200 with 20.0 GiB for the KV cache: vLLM 0.33.0 serves 3.56 requests of 40,960 tokens at "
        "once (logged as 145,632 tokens)"
    )
    assert decide(both).sentence.startswith(
        "It fits on 2 H200 (DP 2) with 20.0 GiB for the KV cache of each: vLLM 0.33.0 serves 3.56 requests of 40,960 "
        "tokens at once in each of 2 engines (logged as 145,632 tokens)"
    )


def test_every_parallel_size_that_takes_gpus_is_counted():
    options = {"tensor_parallel_size": 4, "pipeline_parallel_size": 2, "data_parallel_size": 3}
    assert gpu_words("H200", options) == "24 H200 (TP 4, PP 2, DP 3)"
    assert gpu_words("H200", {**options, "prefill_context_parallel_size": 2}) == "48 H200 (TP 4, PP 2, PCP 2, DP 3)"
    assert gpu_words("H200", {"decode_context_parallel_size": 4, "tensor_parallel_size": 4}) == "4 H200 (TP 4)"
