"""Step5: sparse attention with region summaries beside the KV (vllm/models/step5/nvidia/)."""

from __future__ import annotations

from kvplan.backends.base import DECODER, Backend, BackendEnv, Query
from kvplan.backends.flash_attn import FlashAttn
from kvplan.spec import AttentionSpec, MultipleOf


class Step5SplitKV(FlashAttn):
    """FLASH_ATTN with a fused decode for the window layers."""

    key = "STEP5_SPLIT_KV_FLASH_ATTN"


class Step5DSA(Step5SplitKV):
    key = name = "STEP5_DSA"
    kv_cache_dtypes = ("auto", "bfloat16", "fp8", "fp8_e4m3")
    attention_types = (DECODER,)
    sparse = True
    sliding_window = False
    non_causal = False
    batch_invariance = False

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        """Sparse prefill reads eight-token pages."""
        return spec._replace(block_stride_alignment=MultipleOf(8))

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("BLNHC",)

    def supports_head_size(self, env: BackendEnv, head_size: int) -> bool:
        return head_size == 192

    def supports_kv_cache_dtype(self, env: BackendEnv, cache_dtype: str | None) -> bool:
        return cache_dtype is None or cache_dtype in self.kv_cache_dtypes

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability in ((9, 0), (10, 0), (10, 3))

    def supports_sink(self, env: BackendEnv) -> bool:
        return False

    def supports_mm_prefix(self, env: BackendEnv) -> bool:
        return False

    def supports_per_head_scales(self, env: BackendEnv) -> bool:
        return False

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        return super().combination(query._replace(kv_cache_dtype="auto"), env)


class Step5Summary(Backend):
    key = name = "STEP5_CSA_SUMMARY"


class Step5TailRing(Backend):
    key = name = "STEP5_CSA_TAIL_RING"
