"""Which CUDA graphs are captured: mode, number of sizes and their sum, as vLLM 0.33.0's configuration has them."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engine.cuda_graphs import CudaGraphs, cuda_graphs, supported
from kvplan.errors import Refused
from tests.engine.deployments import B200, H200, LLAMA, resolved

DEFAULT = (51, 10503)
"""1, 2, 4, steps of 8 and of 16 up to 512."""
SERVED = {"max_num_seqs": 256}


def graphs(flags: dict[str, Any], config: dict[str, Any] | None = None, **args: Any) -> CudaGraphs:
    return cuda_graphs(resolved(config or LLAMA, additional_flags=flags, **{**SERVED, **args}))


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ({}, "FULL_AND_PIECEWISE"),
        ({"enforce_eager": True}, "NONE"),
        ({"optimization_level": "0"}, "NONE"),
        ({"optimization_level": "1"}, "PIECEWISE"),
        ({"optimization_level": "3"}, "FULL_AND_PIECEWISE"),
        ({"compilation_config": {"cudagraph_mode": "FULL"}}, "FULL"),
        ({"compilation_config": {"cudagraph_mode": 1}}, "PIECEWISE"),
        ({"compilation_config": {"cudagraph_mode": "FULL_DECODE_ONLY"}}, "FULL_DECODE_ONLY"),
        ({"compilation_config": {"mode": 0}}, "FULL_DECODE_ONLY"),
        ({"compilation_config": {"mode": "STOCK_TORCH_COMPILE"}}, "NONE"),
        ({"compilation_config": {"mode": 0, "cudagraph_mode": "PIECEWISE"}}, "NONE"),
        ({"optimization_level": "0", "compilation_config": {"cudagraph_mode": "PIECEWISE"}}, "NONE"),
        ({"optimization_level": "0", "compilation_config": {"mode": 3}}, "NONE"),
        ({"compilation_config": {"splitting_ops": []}}, "FULL"),
        ({"optimization_level": "1", "compilation_config": {"splitting_ops": []}}, "NONE"),
        ({"compilation_config": {"pass_config": {"fuse_attn_quant": True}}}, "FULL"),
    ],
)
def test_the_mode_follows_level_compilation_and_splits(flags, mode):
    found = graphs(flags)
    assert found.mode == mode
    assert (len(found.sizes), sum(found.sizes)) == ((0, 0) if mode == "NONE" else DEFAULT)


@pytest.mark.parametrize(
    ("flags", "args", "count", "total"),
    [
        ({"max_cudagraph_capture_size": 100}, {}, 15, 631),
        ({"compilation_config": {"max_cudagraph_capture_size": 100}}, {}, 15, 631),
        ({"cudagraph_capture_sizes": [8, 1, 8, 100000]}, {}, 2, 9),
        ({"cudagraph_capture_sizes": [1, 2, 4], "max_cudagraph_capture_size": 4}, {}, 3, 7),
        ({"cudagraph_capture_sizes": [100000]}, {}, 0, 0),
        ({"max_cudagraph_capture_size": 100000}, {}, 531, 2103303),
        ({"performance_mode": "interactivity"}, {}, 76, 10944),
        ({"max_cudagraph_capture_size": 200}, {"max_num_seqs": 10, "max_num_batched_tokens": 100}, 16, 731),
        ({}, {"max_num_seqs": 300}, 52, 10803),
        ({}, {"max_num_seqs": 1024, "gpu": B200}, 83, 35335),
    ],
)
def test_sizes_are_the_given_ones_or_steps_up_to_the_largest(flags, args, count, total):
    args = {"max_num_batched_tokens": 8192, "max_model_len": 4096, "gpu": H200, **args}
    args["max_model_len"] = min(args["max_model_len"], args["max_num_batched_tokens"])
    found = graphs(flags, **args)
    assert (len(found.sizes), sum(found.sizes)) == (count, total)


def test_a_connector_that_works_layer_by_layer_has_no_full_graphs():
    transfer = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
    assert graphs({}, kv_transfer_config=transfer).mode == "FULL_AND_PIECEWISE"
    layers = {**transfer, "kv_connector_extra_config": {"use_layerwise": True}}
    assert graphs({}, kv_transfer_config=layers).mode == "PIECEWISE"


def test_graphs_that_break_at_attention_need_no_compilation():
    flags = {"optimization_level": "0", "compilation_config": {"cudagraph_mode": "PIECEWISE"}}
    assert graphs(flags, env={"VLLM_USE_BREAKABLE_CUDAGRAPH": "1"}).mode == "PIECEWISE"
    assert graphs(flags, env={"VLLM_USE_BREAKABLE_CUDAGRAPH": "0"}).mode == "NONE"


def test_the_v1_runner_rounds_sizes_up_to_whole_requests():
    """Three tokens each, of 1, 2, 4 and 8: 3, 6, and nothing that is more than the largest."""
    spec = {"method": "ngram", "prompt_lookup_max": 4, "num_speculative_tokens": 2}
    args = {"speculative_config": spec, "env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
    flags = {"cudagraph_capture_sizes": [1, 2, 4, 8]}
    config = resolved(LLAMA, additional_flags=flags, **args)
    asked = cuda_graphs(config)
    assert asked.sizes == (1, 2, 4, 8)
    assert supported(asked, config, mixed=True, drafting=True).sizes == (3, 6)
    assert supported(asked, config, mixed=True, drafting=False) == ("PIECEWISE", (1, 2, 4, 8), True)


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ({"max_cudagraph_capture_size": 0}, "--max-cudagraph-capture-size 0 must be 1 or more"),
        ({"max_cudagraph_capture_size": "8"}, "--max-cudagraph-capture-size must be a whole number, got '8'"),
        ({"cudagraph_capture_sizes": []}, "--cudagraph-capture-sizes names no size"),
        ({"cudagraph_capture_sizes": [0, 8]}, "--cudagraph-capture-sizes 0 8 must be 1 or more"),
        ({"cudagraph_capture_sizes": [True]}, "--cudagraph-capture-sizes must be a list of whole numbers"),
        ({"cudagraph_capture_sizes": [1, 4], "max_cudagraph_capture_size": 8}, "8 is not the largest"),
        ({"compilation_config": {"cudagraph_mode": 3}}, "--compilation-config cudagraph_mode must be one of"),
        ({"compilation_config": {"mode": "SOME"}}, "--compilation-config mode must be one of"),
        ({"optimization_level": "O1"}, "--optimization-level must be 0, 1, 2 or 3, got 'O1'"),
    ],
)
def test_options_that_vllm_does_not_start_with_are_refused_in_a_sentence(flags, part):
    with pytest.raises(Refused) as told:
        graphs(flags)
    assert part in str(told.value)


def test_sizes_do_not_matter_without_graphs():
    assert graphs({"max_cudagraph_capture_size": 0, "enforce_eager": True}).sizes == ()
