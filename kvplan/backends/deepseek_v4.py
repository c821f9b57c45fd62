"""DeepSeek-V4 and V4.1: sparse MLA, its sliding windows and its compressors.

Source: vllm/models/deepseek_v4/, vllm/models/deepseek_v41/, vllm/v1/attention/backends/mla/sparse_swa.py. The model
classes name these backends themselves. Assumed, as in vLLM's CUDA wheel: FlashMLA (with its mega attention) and
FlashInfer 0.7.2 are installed.
"""

from __future__ import annotations

from kvplan.backends.base import Backend, BackendEnv, KernelSizes, Query
from kvplan.spec import MultipleOf, Spec


class _DeepseekV4Sparse(Backend):
    dtypes = ("bfloat16",)
    kv_cache_dtypes: tuple[str, ...] = ("auto", "fp8_ds_mla", "fp8")
    head_sizes = (512,)
    mla = True
    sparse = True
    sinks = True
    majors: tuple[int, ...] = (9, 10)
    """Major compute capabilities it runs on."""

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (256,)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] in self.majors


class FlashMLASparseDSV4(_DeepseekV4Sparse):
    key = name = "FLASHMLA_SPARSE_DSV4"


class FlashInferMLASparseDSV4(_DeepseekV4Sparse):
    key = name = "FLASHINFER_MLA_SPARSE_DSV4"
    kv_cache_dtypes = ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_ds_mla")
    majors = (10, 12)

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        cache_dtype, major = query.kv_cache_dtype, env.gpu.capability[0]
        if major not in self.majors:
            return "runs on compute capability 10.x and 12.x only"
        if major == 10 and cache_dtype == "fp8_ds_mla":
            return "reads plain FP8 rows on 10.x, not fp8_ds_mla"
        known = ("fp8", "fp8_e4m3", "fp8_ds_mla") if major == 12 else (None, "auto", "bfloat16", "fp8", "fp8_e4m3")
        return None if cache_dtype in known else f"does not read a {cache_dtype} cache on {major}.x"


def _v41_page(env: BackendEnv) -> int:
    return 64 if env.gpu.capability[0] == 9 else 128


class FlashMLASparseDSV41(_DeepseekV4Sparse):
    key = name = "FLASHMLA_SPARSE_DSV41"
    pcp = True

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (_v41_page(env),)


class FlashMLAMegaAttnDSV41(FlashMLASparseDSV41):
    key = name = "FLASHMLA_MEGA_ATTN_DSV41"
    kv_cache_dtypes = ("auto", "fp8_ds_mla", "fp8", "nvfp4_ds_mla")
    pcp = False
    majors = (10,)

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (128,)

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        return None if env.gpu.capability[0] == 10 else "runs on compute capability 10.x only"


class FlashInferMLASparseDSV41(FlashInferMLASparseDSV4):
    key = name = "FLASHINFER_MLA_SPARSE_DSV41"

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (128,)


class DeepseekSparseSWA(Backend):
    """Window layers: the block is a multiple of 32 tokens, and 256 where nothing else decides."""

    key = name = "DEEPSEEK_SPARSE_SWA"
    head_sizes = (512,)

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (MultipleOf(32),)

    def preferred_block_size(self, env: BackendEnv, default: int) -> int:
        return 256


class Compressor(Backend):
    key = name = "CompressorBackend"
    head_sizes = (512, 1024)

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (MultipleOf(1),)
