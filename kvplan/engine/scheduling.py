"""Which model runner vLLM uses, whether it schedules ahead, and how many batches are in flight.

Source: vllm/config/vllm.py (`use_v2_model_runner`, `_get_v2_model_runner_unsupported_features`,
`_get_v1_model_runner_unsupported_features`, `__post_init__`, `max_concurrent_batches`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine.args import EngineArgs, Speculative
from kvplan.errors import Refused

_ASYNC_METHODS = frozenset(
    ("eagle", "eagle3", "extract_hidden_states", "mtp", "dflash", "dspark", "draft_model", "ngram_gpu")
)
"""Drafting methods with which the V1 runner can schedule ahead."""
_CANDIDATE_HEADS = frozenset(("DFlash2DraftModel", "DFlash2BeamDraftModel", "LiLiCorrDraftModel"))
_XPRESS = frozenset(("Qwen3XPressModel", "DFlashQwen3XPressModel"))


def env_flag(env: Mapping[str, str], name: str, default: bool | None = None) -> bool | None:
    """An environment variable that vLLM reads as an integer, 0 or 1."""
    value = env.get(name)
    if value is None:
        return default
    try:
        return bool(int(value))
    except ValueError:
        raise Refused(f"environment variable {name}={value!r} must be 0 or 1.") from None


def _dbo(args: EngineArgs) -> bool:
    flags = args.additional_flags
    return bool(flags.get("enable_dbo")) or (flags.get("ubatch_size") or 0) > 1


def _v2_unsupported(args: EngineArgs, speculative: Speculative | None) -> list[str]:
    missing = []
    external = args.additional_flags.get("distributed_executor_backend") == "external_launcher"
    if external and args.pipeline_parallel_size > 1:
        missing.append("pipeline parallelism with external_launcher")
    if speculative is not None:
        if speculative.method in ("suffix", "custom_class"):
            missing.append(f"speculative method {speculative.method}")
        if speculative.parallel_drafting and speculative.method not in ("dflash", "dspark"):
            missing.append("parallel drafting with EAGLE")
        if (args.speculative_config or {}).get("use_heterogeneous_vocab"):
            missing.append("drafters with a vocabulary of their own")
    if _dbo(args):
        missing.append("dual batch overlap")
    return missing


def _v1_unsupported(args: EngineArgs, speculative: Speculative | None, async_scheduling: bool) -> list[str]:
    missing = []
    if args.prefill_context_parallel_size > 1:
        missing.append("prefill context parallelism")
    if args.pipeline_parallel_size > 1 and async_scheduling:
        missing.append("pipeline parallelism with async scheduling")
    if speculative is not None:
        missing += _v1_unsupported_drafting(args, speculative)
    if args.additional_flags.get("enable_batch_sharded_sampling"):
        missing.append("batch-sharded sampling")
    return missing


def _v1_unsupported_drafting(args: EngineArgs, speculative: Speculative) -> list[str]:
    missing = []
    names = set() if speculative.draft is None else {speculative.draft.architecture}
    options = args.speculative_config or {}
    if speculative.method == "dspark":
        missing.append("dspark")
    if names & _XPRESS:
        missing.append("xpress")
    if options.get("enable_adaptive_verification"):
        missing.append("adaptive draft verification")
    if options.get("draft_lm_head_quantization") is not None:
        missing.append("a quantised draft lm_head")
    if speculative.method == "dflash" and _mixes_windows(speculative):
        missing.append("DFlash drafters that mix sliding and full attention")
    if speculative.method == "dflash" and names & _CANDIDATE_HEADS:
        missing.append("DFlash drafters with a candidate head")
    return missing


def _mixes_windows(speculative: Speculative) -> bool:
    types = None if speculative.draft is None else speculative.draft.root.get("layer_types")
    if not isinstance(types, (list, tuple)):
        return False
    sliding = sum(1 for t in types if t == "sliding_attention")
    return 0 < sliding < len(types)


def resolve_model_runner(args: EngineArgs, speculative: Speculative | None) -> bool:
    """Whether the V2 model runner runs the model."""
    forced = env_flag(args.env, "VLLM_USE_V2_MODEL_RUNNER")
    return not _v2_unsupported(args, speculative) if forced is None else forced


def check_model_runner(args: EngineArgs, speculative: Speculative | None, use_v2: bool, async_scheduling: bool) -> None:
    """Refused where the runner that was chosen lacks a feature, or drafting another option rules out."""
    if speculative is not None and speculative.use_eagle and args.additional_flags.get("kv_sharing_fast_prefill"):
        raise Refused(
            f"--kv-sharing-fast-prefill does not work with speculative method {speculative.method}, which needs every "
            "prompt token's hidden state; leave one of them out."
        )
    missing = _v2_unsupported(args, speculative) if use_v2 else _v1_unsupported(args, speculative, async_scheduling)
    if missing:
        name, other = ("V2", "0") if use_v2 else ("V1", "1")
        raise Refused(
            f"VLLM_USE_V2_MODEL_RUNNER: the {name} model runner does not support {', '.join(missing)}; "
            f"unset the variable or set it to {other}."
        )


def resolve_async_scheduling(args: EngineArgs, speculative: Speculative | None, use_v2: bool) -> bool:
    """`--async-scheduling`: on unless something rules it out. Refused where it was asked for and cannot be."""
    obstacle = None if use_v2 else _async_obstacle(args, speculative)
    if args.async_scheduling and obstacle is not None:
        raise Refused(f"--async-scheduling does not work with {obstacle} on the V1 model runner; leave it out.")
    return obstacle is None if args.async_scheduling is None else args.async_scheduling


def _async_obstacle(args: EngineArgs, speculative: Speculative | None) -> str | None:
    if speculative is not None:
        if speculative.method not in _ASYNC_METHODS:
            return f"speculative method {speculative.method}"
        if (args.speculative_config or {}).get("disable_padded_drafter_batch"):
            return "disable_padded_drafter_batch"
    return "pipeline parallelism" if args.pipeline_parallel_size > 1 else None


def max_concurrent_batches(pipeline_parallel_size: int, async_scheduling: bool, use_v2: bool) -> int:
    """Batches that may be scheduled before the first is settled."""
    if async_scheduling and use_v2:
        return pipeline_parallel_size + 1
    if async_scheduling and pipeline_parallel_size <= 1:
        return 2
    return pipeline_parallel_size
