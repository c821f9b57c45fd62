"""Flags and environment variables that change the plan in ways that kvplan does not model: refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.errors import Refused

_REFUSED: dict[str, tuple[Any, ...]] = {
    "runner": (None, "auto", "generate"),
    "convert": (None, "auto", "none"),
    "config_format": (None, "auto", "hf"),
    "hf_config_path": (None,),
    "model_class_overrides": (None, {}),
    "watermark_config": (None,),
    "diffusion_config": (None,),
    "mm_encoder_only": (None, False),
    "ec_transfer_config": (None,),
    "use_replayssm": (None, False),
    "engram_config": (None, {}),
}
"""Flag -> the values with which it changes nothing."""

_COUNTS = ("block_size", "mamba_block_size", "max_num_seqs", "max_num_batched_tokens", "max_num_active_seqs")
_MOST = 2**40
_STATE_DTYPES = ("auto", "float32", "float16", "bfloat16")
_OBJECTS = ("attention_config", "speculative_config", "hf_overrides", "kv_transfer_config")
_DBO_BACKENDS = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


def _check_sharded_sampling(args: EngineArgs) -> None:
    tp, seqs = args.tensor_parallel_size, args.max_num_seqs
    if tp <= 1 or (seqs is not None and seqs < tp):
        raise Refused(
            "--enable-batch-sharded-sampling needs --tensor-parallel-size above 1 and at least as many "
            "--max-num-seqs; leave it out."
        )


def check_flags(args: EngineArgs) -> None:
    """Refused where a flag is set that kvplan cannot judge."""
    flags: Mapping[str, Any] = args.additional_flags
    for name, harmless in _REFUSED.items():
        value = flags.get(name)
        if value not in harmless:
            raise Refused(f"--{name.replace('_', '-')} {value!r} is not one that kvplan can judge; leave it out.")
    microbatches = flags.get("enable_dbo") or (flags.get("ubatch_size") or 0) > 1
    if microbatches and flags.get("all2all_backend") not in _DBO_BACKENDS:
        raise Refused(f"--enable-dbo needs --all2all-backend {' or '.join(_DBO_BACKENDS)}; add one or leave it out.")
    if flags.get("enable_batch_sharded_sampling"):
        _check_sharded_sampling(args)
    if (args.attention_config or {}).get("hisparse_config") is not None:
        raise Refused("--attention-config hisparse_config is not one that kvplan can judge; leave it out.")
    if args.env.get("VLLM_MLA_DISABLE", "0") not in ("", "0"):
        raise Refused("environment variable VLLM_MLA_DISABLE is not one that kvplan can judge; unset it.")
    _check_values(args)


def _check_values(args: EngineArgs) -> None:
    for name in _COUNTS:
        value = getattr(args, name) if name in args._fields else args.additional_flags.get(name)
        if value is not None and not _is_integer(value, 1):
            raise Refused(f"--{name.replace('_', '-')} {value!r} must be at least 1 and at most {_MOST:,}.")
    if args.max_model_len is not None and args.max_model_len != -1 and not _is_integer(args.max_model_len, 1):
        raise Refused(f"--max-model-len {args.max_model_len!r} must be 1 to {_MOST:,} tokens, or auto.")
    if not 0 < args.gpu_memory_utilization <= 1:
        raise Refused(f"--gpu-memory-utilization {args.gpu_memory_utilization} must be above 0 and at most 1.")
    for name in ("mamba_cache_dtype", "mamba_ssm_cache_dtype"):
        if getattr(args, name) not in _STATE_DTYPES:
            raise Refused(
                f"--{name.replace('_', '-')} {getattr(args, name)!r} must be one of {', '.join(_STATE_DTYPES)}."
            )
    for name in _OBJECTS:
        value = getattr(args, name)
        if value is not None and not isinstance(value, Mapping):
            raise Refused(f"--{name.replace('_', '-')} {value!r} must be a JSON object.")


def _is_integer(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= _MOST
