"""Qwen4's sparse attention: a Triton kernel on manager blocks (vllm/models/qwen4_exp/nvidia/qsa.py)."""

from __future__ import annotations

from kvplan.backends.base import BackendEnv, KernelSizes, Query
from kvplan.backends.flash_attn import FlashAttn
from kvplan.spec import MultipleOf, Spec


class QSATriton(FlashAttn):
    key = name = "QWEN4_EXP_QSA_TRITON"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16", "fp8", "fp8_e4m3")
    sparse = True
    kv_connector = False
    dcp = False

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (MultipleOf(16),)

    def supports_kv_cache_dtype(self, env: BackendEnv, cache_dtype: str | None) -> bool:
        return cache_dtype is None or cache_dtype in self.kv_cache_dtypes

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        return None
