"""Backends of packages that vLLM's wheel does not bring: B12X and HPC_ATTN.

They are chosen by name only, never by rank.
"""

from __future__ import annotations

from kvplan.backends.base import Backend, BackendEnv, KernelSizes, Query
from kvplan.spec import Spec


class B12x(Backend):
    """Consumer Blackwell (vllm/v1/attention/backends/b12x.py)."""

    key = name = "B12X"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16", "fp8", "fp8_e4m3")
    head_sizes = (64, 128, 192, 256)
    sinks = True
    sliding_window = True

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (64, 128)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("LBHNC", "BLHNC")

    def supports_block_size(self, env: BackendEnv, block_size: int | None) -> bool:
        return block_size in (None, 64, 128)

    def preferred_block_size(self, env: BackendEnv, default: int) -> int:
        return default if default in (64, 128) else 128

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability in ((12, 0), (12, 1))

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        """Without its package, whose own checks cannot be known, it takes nothing."""
        return "needs the package b12x, which is no part of vLLM's own dependencies"


class HpcAttn(Backend):
    """Tencent's kernels for Hopper (vllm/v1/attention/backends/hpc_attn.py)."""

    key = name = "HPC_ATTN"
    kv_cache_dtypes = ("auto", "bfloat16", "fp8_e4m3")
    head_sizes = (128,)

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (64,)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("LBNHC",)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability == (9, 0)
