"""The attention backend that the flags ask for.

Source: vllm/config/attention.py (`AttentionConfig`) and `create_engine_config` of vllm/engine/arg_utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.errors import Refused

KINDS = (
    "chunked_local_attention",
    "cross_attention",
    "encoder_only_attention",
    "full_attention",
    "mamba",
    "mla_attention",
    "sink_full_attention",
    "sliding_window",
    "sliding_window_mla",
)
"""Keys of backend_per_kind (`KVCacheSpecKind`)."""
_DECODE_ONLY = ("TRITON_MSA", "CUTLASS_MSA")
"""Names that choose MiniMax-M3's sparse decode kernel and leave the layers' backend to vLLM."""


def named_backend(value: Any) -> str | None:
    """A backend's name in vLLM's spelling; None for automatic selection."""
    if not isinstance(value, str):
        raise Refused(f"attention backend {value!r} must be a name.")
    return None if value.upper() == "AUTO" else value.upper()


def given_backend(args: EngineArgs) -> str | None:
    """`--attention-backend`, or backend of `--attention-config`. Refused where both are given."""
    configured = (args.attention_config or {}).get("backend")
    if args.attention_backend is None:
        name = None if configured is None else named_backend(configured)
        return None if name in _DECODE_ONLY else name
    if configured is not None:
        raise Refused("--attention-backend and backend of --attention-config exclude each other; keep one.")
    return named_backend(args.attention_backend)


def backend_per_kind(args: EngineArgs) -> Mapping[str, str]:
    """backend_per_kind of `--attention-config`, names in vLLM's spelling."""
    value = (args.attention_config or {}).get("backend_per_kind") or {}
    if not isinstance(value, Mapping):
        raise Refused(f"--attention-config backend_per_kind must be an object, got {value!r}.")
    unknown = [kind for kind in value if kind not in KINDS]
    if unknown:
        raise Refused(f"--attention-config backend_per_kind {unknown[0]!r} is not one of {', '.join(KINDS)}.")
    return {kind: str(backend).upper() for kind, backend in value.items()}
