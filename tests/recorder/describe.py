"""vLLM's specs, layers and groups as plain values, under its own field names."""

from __future__ import annotations

import dataclasses
from enum import Enum
from fractions import Fraction
from typing import Any

KINDS = {
    "FullAttentionSpec": "full_attention",
    "MLAAttentionSpec": "mla",
    "SlidingWindowSpec": "sliding_window",
    "SlidingWindowMLASpec": "sliding_window_mla",
    "ChunkedLocalAttentionSpec": "chunked_local",
    "MambaSpec": "mamba",
    "CircularBufferSpec": "circular_buffer",
    "CrossAttentionSpec": "cross_attention",
    "SinkFullAttentionSpec": "sink_full_attention",
    "RSWASpec": "rswa",
    "HiddenStateCacheSpec": "hidden_state",
}
_OF_THE_LAYER = ("is_draft", "kv_cache_specs")


def plain(value: Any) -> Any:
    """A value of vLLM as JSON has it: names for dtypes and enums, ``{"multiple_of": n}`` for a MultipleOf."""
    if isinstance(value, Enum):
        return value.name.lower()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if type(value).__name__ == "MultipleOf":
        return {"multiple_of": value.base}
    text = str(value)
    return text.removeprefix("torch.")


def spec_row(spec: Any) -> dict[str, Any]:
    """Every field of a spec that is not null or its class's default, and the sizes that vLLM derives."""
    row: dict[str, Any] = {"kind": KINDS[type(spec).__name__]}
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name not in _OF_THE_LAYER and value is not None and value != field.default:
            row[field.name] = plain(value)
    row["page_size_bytes"] = spec.page_size_bytes
    alignment = spec.get_block_stride_alignment()
    if alignment != 1:
        row["block_stride_alignment_bytes"] = alignment
    return row


def layer_row(module: Any, spec: Any, stage: int) -> dict[str, Any]:
    """The spec of one layer, who owns it, and its backend with the kernel blocks it takes for that spec."""
    backend = module.get_attn_backend()
    row = {
        "owner": "drafter" if module.is_draft_layer else "target",
        **spec_row(spec),
        "backend": backend.get_name(),
        "kernel_block_sizes": plain(backend.get_supported_kernel_block_sizes(spec)),
    }
    return row | {"stage": stage} if stage else row


def group_row(group: Any, config: Any) -> dict[str, Any]:
    """One group: its layers in order, block, bytes in a block of its layers, and the blocks of one request."""
    spec = group.kv_cache_spec
    inner = getattr(spec, "kv_cache_specs", None)
    row = {
        "layers": list(group.layer_names),
        "kind": KINDS[type(next(iter(inner.values())) if inner else spec).__name__],
        "block_size": spec.block_size,
        "page_size_bytes": spec.page_size_bytes,
        "blocks_per_request": -(-spec.max_memory_usage_bytes(config) // spec.page_size_bytes),
    }
    if inner:
        row["uniform_type"] = True
    if group.is_eagle_group:
        row["is_eagle_group"] = True
    return row


def failure(error: BaseException, step: str) -> dict[str, str]:
    """What stopped the engine: where, the exception's class, and the first words of its message."""
    words = " ".join(str(error).split()[:8])
    return {"step": step, "type": type(error).__name__, "begins": words[:80]}


_RESOLVED = {
    "model_config": ("dtype", "quantization", "max_model_len"),
    "parallel_config": (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "decode_context_parallel_size",
        "prefill_context_parallel_size",
        "enable_expert_parallel",
    ),
    "scheduler_config": (
        "max_num_seqs",
        "max_num_batched_tokens",
        "max_num_encoder_input_tokens",
        "async_scheduling",
        "disable_hybrid_kv_cache_manager",
    ),
    "cache_config": (
        "mamba_cache_mode",
        "mamba_cache_dtype",
        "mamba_ssm_cache_dtype",
        "enable_prefix_caching",
        "kv_cache_dtype_skip_layers",
    ),
}


def resolved_options(config: Any) -> dict[str, Any]:
    """The options that vLLM resolved before a model is built, under the names of its flags."""
    out = {
        name: plain(getattr(getattr(config, section), name)) for section, names in _RESOLVED.items() for name in names
    }
    out |= {name: getattr(config, name) for name in ("max_concurrent_batches", "max_in_flight_tokens")}
    backend = config.attention_config.backend
    return out | {
        "kv_cache_dtype": config.cache_config.cache_dtype,
        "attention_backend": None if backend is None else backend.name,
    }


def block_sizes(config: Any) -> dict[str, int | None]:
    """Tokens in a block, as a worker aligned them to its backends and states."""
    return {name: getattr(config.cache_config, name) for name in ("block_size", "mamba_block_size")}


def drafter(config: Any) -> dict[str, Any] | None:
    """Method, draft length and architecture of the drafter; None without one.

    Methods that draft without a model have no architecture, though vLLM hands some of them the target's config.
    """
    speculative = config.speculative_config
    if speculative is None:
        return None
    draft = speculative.draft_model_config
    if draft is speculative.target_model_config:
        draft = None
    return {
        "method": speculative.method,
        "num_speculative_tokens": speculative.num_speculative_tokens,
        "architecture": None if draft is None else draft.architecture,
    }
