"""TRITON_ATTN and its variant for V heads of another size (vllm/v1/attention/backends/triton_attn*.py)."""

from __future__ import annotations

from kvplan.backends.base import ALL_ATTENTION_TYPES, DECODER, Backend, BackendEnv, KernelSizes, is_per_token_head
from kvplan.dtypes import size_of
from kvplan.spec import AttentionSpec, MultipleOf, Spec


class TritonAttn(Backend):
    key = name = "TRITON_ATTN"
    dtypes = ("float16", "bfloat16", "float32")
    kv_cache_dtypes: tuple[str, ...] = (
        "auto",
        "float16",
        "bfloat16",
        "fp8",
        "fp8_e4m3",
        "fp8_e5m2",
        "int4_per_token_head",
        "int8_per_token_head",
        "fp8_per_token_head",
    )
    attention_types: tuple[str, ...] = ALL_ATTENTION_TYPES
    sinks = True
    sliding_window = True
    rswa = True
    non_causal = True
    mm_prefix = True
    batch_invariance = True
    alibi_sqrt = True

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        """Per-token-head modes: one float32 scale behind each of a head's K and V."""
        if spec.state_content_bytes is not None or not is_per_token_head(spec.kv_quant_mode):
            return spec
        head_size, head_size_v = spec.head_size, spec.head_size_v
        if spec.kv_quant_mode == "int4_per_token_head":
            head_size, head_size_v = head_size // 2, head_size_v // 2
        data = (head_size + head_size_v) * size_of(spec.dtype)
        return spec._replace(state_content_bytes=data + 2 * size_of("float32"))

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (MultipleOf(16),)

    def supports_head_size(self, env: BackendEnv, head_size: int) -> bool:
        return head_size >= 32


class TritonAttnDiffKV(TritonAttn):
    key = name = "TRITON_ATTN_DIFFKV"
    kv_cache_dtypes = ("auto", "bfloat16", "fp8", "fp8_e4m3")
    attention_types = (DECODER,)
