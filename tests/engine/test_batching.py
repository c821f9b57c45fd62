"""Requests and tokens of a step, and what the scheduler refuses. Expectations are vLLM 0.33.0's (`vllm serve`)."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import Refused
from kvplan.gpus import Gpu
from tests.engine.deployments import A100, B200, GB10, H200, L4, LLAMA, QWEN3_5, resolved

WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "dtype": "float16",
    "is_encoder_decoder": True,
    "num_attention_heads": 20,
    "max_target_positions": 448,
}
GEMMA4 = {
    "model_type": "gemma4",
    "architectures": ["Gemma4ForConditionalGeneration"],
    "vision_config": {},
    "text_config": {
        **QWEN3_5["text_config"],
        "model_type": "gemma4_text",
        "layer_types": ["sliding_attention", "full_attention"] * 20,
        "head_dim": 256,
        "global_head_dim": 512,
        "use_bidirectional_attention": "vision",
    },
}


@pytest.mark.parametrize(
    ("gpu", "seqs", "tokens"),
    [(B200, 1024, 16384), (H200, 1024, 8192), (A100, 256, 2048), (L4, 256, 2048), (GB10, 256, 2048)],
)
def test_defaults_follow_the_gpu(gpu: Gpu, seqs: int, tokens: int) -> None:
    config = resolved(gpu=gpu)
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (seqs, tokens)


@pytest.mark.parametrize(
    ("args", "seqs", "tokens"),
    [
        ({"max_num_seqs": 2, "max_model_len": 512}, 2, 1024),
        ({"max_num_batched_tokens": 64}, 64, 64),
        ({"max_num_seqs": 5000}, 5000, 16384),
        ({"enable_chunked_prefill": False}, 1024, 131072),
        ({"additional_flags": {"performance_mode": "throughput"}}, 2048, 32768),
        (
            {
                "enable_expert_parallel": True,
                "data_parallel_size": 2,
                "additional_flags": {"all2all_backend": "deepep_low_latency"},
            },
            256,
            256,
        ),
    ],
)
def test_defaults_follow_the_flags(args: dict[str, Any], seqs: int, tokens: int) -> None:
    config = resolved({**LLAMA, "num_local_experts": 8}, **args)
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (seqs, tokens)


def test_an_encoder_decoder_takes_a_whole_prompt_in_one_step() -> None:
    config = resolved(WHISPER)
    assert not config.enable_chunked_prefill
    assert not config.enable_prefix_caching
    assert (config.max_model_len, config.max_num_batched_tokens) == (448, 16384)
    assert config.max_num_encoder_input_tokens == 16384


@pytest.mark.parametrize(
    ("args", "mm_prefix", "tokens"),
    [
        ({}, True, 2496),
        ({"language_model_only": True}, False, 2048),
        ({"additional_flags": {"limit_mm_per_prompt": {"image": 0, "video": 0}}}, False, 2048),
        ({"additional_flags": {"limit_mm_per_prompt": {"image": 0}}}, True, 2496),
        ({"additional_flags": {"limit_mm_per_prompt": {"video": {"count": 1, "num_frames": 8}}}}, True, 2048),
    ],
)
def test_a_video_must_fit_in_one_step_of_a_prefix_model(args: dict[str, Any], mm_prefix: bool, tokens: int) -> None:
    config = resolved(GEMMA4, gpu=L4, **args)
    assert (config.is_mm_prefix_lm, config.max_num_batched_tokens) == (mm_prefix, tokens)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"max_num_seqs": 0}, "--max-num-seqs 0 must be at least 1"),
        ({"max_num_seqs": 128, "max_num_batched_tokens": 64}, "less than --max-num-seqs 128"),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 2048}, "without chunked prefill"),
        ({"additional_flags": {"max_num_active_seqs": 5000}}, "--max-num-active-seqs 5000"),
        ({"additional_flags": {"long_prefill_token_threshold": 200000}}, "--long-prefill-token-threshold 200000"),
    ],
)
def test_what_the_scheduler_refuses(args: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        resolved(**args)


@pytest.mark.parametrize(
    ("args", "use_v2", "asynchronous", "batches"),
    [
        ({}, True, True, 2),
        ({"async_scheduling": False}, True, False, 1),
        ({"pipeline_parallel_size": 4}, True, True, 5),
        ({"pipeline_parallel_size": 4, "async_scheduling": False}, True, False, 4),
        ({"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, False, True, 2),
        ({"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "pipeline_parallel_size": 2}, False, False, 2),
    ],
)
def test_batches_in_flight(args: dict[str, Any], use_v2: bool, asynchronous: bool, batches: int) -> None:
    config = resolved(**args)
    assert (config.use_v2_model_runner, config.async_scheduling) == (use_v2, asynchronous)
    assert config.max_concurrent_batches == batches
    assert config.max_in_flight_tokens == batches * 16384


def test_async_scheduling_that_the_v1_runner_cannot_do_is_refused() -> None:
    with pytest.raises(Refused, match="--async-scheduling does not work with pipeline parallelism"):
        resolved(async_scheduling=True, pipeline_parallel_size=2, env={"VLLM_USE_V2_MODEL_RUNNER": "0"})


def test_an_environment_value_that_is_no_number_is_one_sentence() -> None:
    with pytest.raises(Refused, match="VLLM_USE_V2_MODEL_RUNNER='x' must be 0 or 1"):
        resolved(env={"VLLM_USE_V2_MODEL_RUNNER": "x"})
