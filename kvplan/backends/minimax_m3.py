"""MiniMax-M3: block-sparse grouped-query attention and its indexer (vllm/models/minimax_m3/)."""

from __future__ import annotations

from kvplan.backends.base import Backend, BackendEnv, KernelSizes
from kvplan.backends.flashinfer import nvfp4_slots
from kvplan.spec import AttentionSpec, Spec

_CACHE_DTYPES = ("bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")


class MiniMaxM3Sparse(Backend):
    """One sparse block per page: 128 tokens."""

    key = name = "MINIMAX_M3_SPARSE"
    kv_cache_dtypes: tuple[str, ...] = _CACHE_DTYPES
    head_sizes = (128,)
    sparse = True

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (128,)


class MiniMaxM3SparseNvfp4(MiniMaxM3Sparse):
    """An NVFP4 cache, on datacenter Blackwell."""

    key = "MINIMAX_M3_SPARSE_NVFP4"
    kv_cache_dtypes = ("nvfp4",)

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        return nvfp4_slots(spec)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("LBHNC",)


class CutlassMSA(MiniMaxM3Sparse):
    """An alias that selects the decode kernel."""

    key = name = "CUTLASS_MSA"


class TritonMSA(MiniMaxM3Sparse):
    """An alias that selects the decode kernel."""

    key = name = "TRITON_MSA"


class MiniMaxM3Indexer(MiniMaxM3Sparse):
    """The indexer's keys (vllm/models/minimax_m3/common/indexer.py)."""

    key = name = "MINIMAX_M3_SPARSE_INDEXER"
