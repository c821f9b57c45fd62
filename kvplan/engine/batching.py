"""How many requests and tokens one step may hold: defaults by GPU, and what the scheduler refuses.

Source: vllm/engine/arg_utils.py (`get_batch_defaults`, `_set_default_max_num_seqs_and_batched_tokens_args`,
`_get_min_mm_batched_tokens`) and vllm/config/scheduler.py (`verify_max_model_len`). The defaults are those of
`vllm serve` (UsageContext.OPENAI_API_SERVER).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.engine.args import EngineArgs
from kvplan.engine.facts import model_type
from kvplan.errors import Refused
from kvplan.gpus import Gpu
from kvplan.hf.config import Config

_GIB = 1 << 30
_BATCHED_DP = 256
"""Default tokens of a step whose experts talk through a low-latency all-to-all."""
_LOW_LATENCY = frozenset(("deepep_low_latency", "nixl_ep"))


class Batching(NamedTuple):
    """Sizes of one scheduler step."""

    max_num_seqs: int
    max_num_batched_tokens: int


def gpu_defaults(gpu: Gpu) -> Batching:
    """Requests and tokens by the device's memory and name."""
    memory = gpu.total_memory_bytes
    if memory >= 160 * _GIB:
        return Batching(1024, 16384)
    if memory >= 70 * _GIB and "a100" not in gpu.device_name.lower() and gpu.capability != (12, 1):
        return Batching(1024, 8192)
    return Batching(256, 2048)


def resolve_batching(
    args: EngineArgs, gpu: Gpu, max_model_len: int, enable_chunked_prefill: bool, min_multimodal_tokens: int = 0
) -> Batching:
    """`--max-num-seqs` and `--max-num-batched-tokens`, each filled in where it is not given.

    ``min_multimodal_tokens``: tokens of the largest image, video or audio that must fit in one step unsplit.
    """
    seqs, tokens = args.max_num_seqs, args.max_num_batched_tokens
    default = gpu_defaults(gpu)
    if tokens is None and _batched_dp(args):
        default = default._replace(max_num_batched_tokens=_BATCHED_DP)
    if args.additional_flags.get("performance_mode") == "throughput":
        default = Batching(default.max_num_seqs * 2, default.max_num_batched_tokens * 2)
    given_seqs = seqs is not None
    seqs = default.max_num_seqs if seqs is None else seqs
    if tokens is None:
        tokens = default.max_num_batched_tokens
        if not enable_chunked_prefill:
            tokens = max(max_model_len, tokens)
        tokens = min(seqs * max_model_len, max(tokens, min_multimodal_tokens))
    if not given_seqs:
        seqs = min(seqs, tokens)
    return Batching(seqs, tokens)


def _batched_dp(args: EngineArgs) -> bool:
    return (
        args.additional_flags.get("all2all_backend") in _LOW_LATENCY
        and args.enable_expert_parallel
        and args.data_parallel_size > 1
    )


def check_batching(batching: Batching, max_model_len: int, enable_chunked_prefill: bool, args: EngineArgs) -> None:
    """Refused where the scheduler could not serve a request of the model's length."""
    seqs, tokens = batching
    if tokens < max_model_len and not enable_chunked_prefill:
        raise Refused(
            f"--max-num-batched-tokens {tokens} is less than --max-model-len {max_model_len} without chunked prefill; "
            "raise it to the model's length or shorten that."
        )
    if tokens < seqs:
        raise Refused(
            f"--max-num-batched-tokens {tokens} is less than --max-num-seqs {seqs}; raise the one or lower the other."
        )
    active = args.additional_flags.get("max_num_active_seqs")
    if active is not None and active > seqs:
        raise Refused(f"--max-num-active-seqs {active} is more than --max-num-seqs {seqs}; lower it.")
    threshold = args.additional_flags.get("long_prefill_token_threshold") or 0
    if threshold > max_model_len:
        raise Refused(
            f"--long-prefill-token-threshold {threshold} is more than --max-model-len {max_model_len}; lower it."
        )


def _limits(args: EngineArgs) -> Mapping[str, Any]:
    value = args.additional_flags.get("limit_mm_per_prompt") or {}
    if not isinstance(value, Mapping):
        raise Refused(f"--limit-mm-per-prompt must be an object, got {value!r}.")
    return value


def takes_multimodal(args: EngineArgs, root: Config) -> bool:
    """Whether images, video or audio can reach a model whose images attend both ways (`supports_multimodal_inputs`)."""
    if args.additional_flags.get("enable_mm_embeds"):
        return True
    if args.language_model_only:
        return False
    gemma4 = model_type(root).startswith("gemma4")
    modalities = ["image", *(["video"] if gemma4 else []), *(["audio"] if gemma4 and root.get("audio_config") else [])]
    limits = _limits(args)
    return any(_limit(limits.get(name)) for name in modalities)


def _limit(value: Any) -> int:
    if isinstance(value, Mapping):
        value = value.get("count", 999)
    return 999 if value is None else int(value)


def min_multimodal_tokens(architecture: str, root: Config, args: EngineArgs) -> int:
    """Tokens of the largest item of a model whose images attend bidirectionally; 0 where vLLM does not know it early.

    Source: `get_mm_max_tokens_per_item` of vllm/model_executor/models/gemma4_mm.py and gemma4_unified.py (a video has
    at most 32 frames of 70 tokens, each framed by 8) and of vllm/models/deepseek_v4/common/mm_preprocess.py.
    """
    if architecture == "DeepseekV4ForConditionalGeneration":
        return root.integer("vision_max_n_token") + 4 - 1
    if architecture not in ("Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"):
        return 0
    video = _limits(args).get("video")
    frames = video.get("num_frames") if isinstance(video, Mapping) else None
    vision = root.section("vision_config")
    key = "num_soft_tokens" if architecture == "Gemma4UnifiedForConditionalGeneration" else "default_output_length"
    image = 280 if vision is None else vision.integer(key, 280)
    audio = 750 if root.get("audio_config") else 0
    return max(image, audio, min(frames or 32, 32) * (70 + 2 + 6))
