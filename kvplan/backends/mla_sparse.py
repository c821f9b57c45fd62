"""Sparse MLA: kernels that gather an indexer's tokens (vllm/v1/attention/backends/mla/*sparse*.py).

Assumed, as in vLLM's CUDA wheel: FlashMLA, FA4's CuTe entry point and FlashInfer 0.7.2 are installed.
"""

from __future__ import annotations

from kvplan.backends import fa_version
from kvplan.backends.base import FLOAT_CACHE, FP8_CACHE, Backend, BackendEnv, KernelSizes, Query, is_quantized
from kvplan.spec import AttentionSpec, MultipleOf, Spec


def align_to_rows(spec: AttentionSpec, rows: int = 1) -> AttentionSpec:
    """Blocks a whole number of ``rows``-state pages apart (`align_blocks_to_rows` of sparse_utils.py)."""
    return spec._replace(block_stride_alignment=rows * spec.state_content_size_bytes)


def canonical_cache_dtype(backend_name: str, cache_dtype: str) -> str:
    """The cache dtype that a sparse MLA layer really stores (`_canonicalize_sparse_mla_kv_cache_dtype`).

    vLLM writes it back to the run's cache dtype when it builds the layer: later layers are selected with it.
    """
    if backend_name == "FLASHMLA_SPARSE" and is_quantized(cache_dtype) and cache_dtype != "nvfp4_ds_mla":
        return "fp8_ds_mla"
    if backend_name == "FLASHINFER_MLA_SPARSE_SM120" and cache_dtype in ("auto", "fp8", "fp8_e4m3"):
        return "fp8_ds_mla"
    return cache_dtype


class SparseMLABackend(Backend):
    """What all sparse MLA backends share."""

    head_sizes: tuple[int, ...] = (512, 576)
    mla = True
    sparse = True
    pcp = True
    page = 64
    """Kernel blocks are multiples of it, in tokens."""
    capability_major = 10

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (MultipleOf(self.page),)

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        return align_to_rows(spec)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] == self.capability_major


class FlashInferMLASparse(SparseMLABackend):
    """TensorRT-LLM's kernels (flashinfer_mla_sparse.py, `FlashInferMLASparseTRTLLMBackend`)."""

    key = name = "FLASHINFER_MLA_SPARSE"
    kv_cache_dtypes: tuple[str, ...] = FP8_CACHE
    dcp = True
    page = 32

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        return align_to_rows(spec, self.page)

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        if env.prefill_context_parallel_size > 1 and env.decode_context_parallel_size > 1:
            return "does not combine prefill and decode context parallelism (FLASHMLA_SPARSE does)"
        if query.kv_cache_dtype == "fp8_ds_mla":
            return "does not read the fp8_ds_mla cache"
        nope, rope, rank = env.qk_nope_head_dim, env.qk_rope_head_dim, env.kv_lora_rank
        if rope == 0:
            if nope != 256 or rank != 512:
                return f"needs qk_nope_head_dim 256 and kv_lora_rank 512 without rope, not {nope} and {rank}"
        elif nope not in (128, 192):
            return f"needs qk_nope_head_dim 128 or 192, not {nope}"
        return None if env.index_topk is not None else "needs a model with index_topk"


class FlashInferMLASparseSM120(SparseMLABackend):
    """Consumer Blackwell (flashinfer_mla_sparse.py, `FlashInferMLASparseSM120Backend`)."""

    key = name = "FLASHINFER_MLA_SPARSE_SM120"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "fp8", "fp8_e4m3", "fp8_ds_mla")
    capability_major = 12

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        return align_to_rows(spec, self.page)

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        if query.dtype != "bfloat16":
            return f"runs bfloat16 only, not {query.dtype}"
        if query.kv_cache_dtype not in (None, *self.kv_cache_dtypes):
            return f"does not read a {query.kv_cache_dtype} cache"
        return None if env.index_topk == 2048 else f"needs index_topk 2048, not {env.index_topk}"


class FlashInferMLASparseSM90(SparseMLABackend):
    """Hopper (flashinfer_mla_sparse_sm90.py)."""

    key = name = "FLASHINFER_MLA_SPARSE_SM90"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16", "fp8", "fp8_e4m3")
    capability_major = 9

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        if not query.use_sparse:
            return "needs sparse MLA"
        if env.kv_lora_rank != 512:
            return f"needs kv_lora_rank 512, not {env.kv_lora_rank}"
        return (
            None if env.qk_rope_head_dim in (0, 64) else f"needs qk_rope_head_dim 0 or 64, not {env.qk_rope_head_dim}"
        )


class FlashMLASparse(SparseMLABackend):
    """vllm/v1/attention/backends/mla/flashmla_sparse.py."""

    key = name = "FLASHMLA_SPARSE"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16", "fp8_ds_mla", "fp8", "nvfp4_ds_mla")
    dcp = True

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        quantized = isinstance(spec, AttentionSpec) and spec.kv_quant_mode != "none"
        return (64,) if quantized and env.gpu.capability[0] == 10 else (MultipleOf(64),)

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        """Quantised caches off Blackwell are read in 64-token pages, which matters only where a block holds several."""
        if spec.kv_quant_mode != "none" and env.gpu.capability[0] != 10:
            return spec._replace(block_stride_alignment=MultipleOf(64))
        return align_to_rows(spec)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] in (9, 10)

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        cache_dtype, major = query.kv_cache_dtype, env.gpu.capability[0]
        if query.head_size == 512:
            if cache_dtype not in (None, "auto", "bfloat16", "float16", "fp8_ds_mla") or major != 9:
                return "takes head size 512 on Hopper only, with a bfloat16 or fp8_ds_mla cache"
            if env.qk_rope_head_dim != 0:
                return "takes head size 512 for models without rope only"
        if cache_dtype == "nvfp4_ds_mla" and major != 10:
            return "reads nvfp4_ds_mla on datacenter Blackwell only"
        return None


class HYV4FlashMLASparse(FlashMLASparse):
    """FLASHMLA_SPARSE with attention sinks (vllm/models/hy_v4/nvidia/flashmla_sparse.py)."""

    key = "HY_V4_FLASHMLA_SPARSE"
    sinks = True


class FlashAttnMLASparse(SparseMLABackend):
    """FA3 on Hopper (flashattn_mla_sparse.py, `FlashAttnMLASparseBackend`)."""

    key = name = "FLASH_ATTN_MLA_SPARSE"
    kv_cache_dtypes = FLOAT_CACHE
    head_sizes = ()
    capability_major = 9

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        if query.kv_cache_dtype not in (None, *FLOAT_CACHE):
            return "reads a float16 or bfloat16 cache only"
        if not fa_version.is_supported(3, env):
            return "needs FA3, which runs on Hopper only"
        if env.decode_context_parallel_size > 1:
            return "has no decode context parallelism"
        return None if env.index_topk is not None else "needs a model with index_topk"


class Dots3NotePaddedSparse(FlashAttnMLASparse):
    """NOTE's cache rows padded to the window layers' latents (vllm/models/dots3_note/nvidia/attention.py)."""

    key = name = "DOTS3_NOTE_PADDED_MLA_SPARSE"

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("BLHNC",)


class FlashAttnMLASparseFA4(FlashInferMLASparse):
    """FA4 for decode, TensorRT-LLM's kernels for the rest (flashattn_mla_sparse.py)."""

    key = name = "FLASH_ATTN_MLA_SPARSE_FA4"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16")
    head_sizes = (576,)
    page = 64

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        if not fa_version.is_supported(4, env):
            return "needs FA4, which runs on compute capability 9.x to 11.x"
        if env.index_topk is None or env.index_topk % 128:
            return f"needs index_topk to be a multiple of 128, not {env.index_topk}"
        if (env.kv_lora_rank, env.qk_rope_head_dim) != (512, 64):
            return f"needs kv_lora_rank 512 and qk_rope_head_dim 64, not {env.kv_lora_rank} and {env.qk_rope_head_dim}"
        dcp = env.decode_context_parallel_size
        counts = (8, 16, 32, 64) if dcp > 1 else (8, 16, 32, 64, 128)
        if env.num_attention_heads * dcp not in counts:
            return f"needs {', '.join(map(str, counts))} gathered query heads, not {env.num_attention_heads * dcp}"
        return super().combination(query, env)
