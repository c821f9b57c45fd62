"""FLASHINFER (vllm/v1/attention/backends/flashinfer.py, vllm/utils/flashinfer.py).

Assumed: the kernels' cubins are at hand, as the wheel's dependency flashinfer-cubin provides them.
"""

from __future__ import annotations

from kvplan.backends.base import Backend, BackendEnv, KernelSizes, Query
from kvplan.dtypes import size_of
from kvplan.errors import Refused
from kvplan.spec import AttentionSpec, Spec

_PAGES: KernelSizes = (16, 32, 64)
_LARGE_PAGES: KernelSizes = (16, 32, 64, 128, 256, 512, 1024)


def has_trtllm(env: BackendEnv, *, is_prefill: bool) -> bool:
    """Whether TensorRT-LLM's kernels run this phase here (`supports_trtllm_attention`)."""
    if env.batch_invariant:
        return False
    if env.gpu.capability == (9, 0) or env.gpu.capability[0] == 12:
        return not is_prefill
    return env.gpu.capability[0] == 10


def can_use_trtllm(env: BackendEnv) -> bool:
    """Whether the model decodes with TensorRT-LLM's kernels (`can_use_trtllm_attention`)."""
    if env.use_trtllm_attention is False or not has_trtllm(env, is_prefill=False):
        return False
    return env.num_attention_heads % env.num_kv_heads == 0


def nvfp4_content(head_size: int) -> int:
    """Bytes of one head's NVFP4 vector: packed 4-bit data and one FP8 scale per 16 (`nvfp4_kv_cache_full_dim`)."""
    return head_size // 2 + head_size // 16


def nvfp4_slots(spec: AttentionSpec) -> AttentionSpec:
    """K and V of a head in two slots of packed data and scales; specs of other caches unchanged."""
    if spec.state_content_bytes is not None or spec.kv_quant_mode != "nvfp4":
        return spec
    content = nvfp4_content(spec.head_size) * size_of(spec.dtype)
    return spec._replace(num_head_slots=2 * spec.num_kv_heads, state_content_bytes=content)


class FlashInfer(Backend):
    key = name = "FLASHINFER"
    kv_cache_dtypes = (
        "auto",
        "float16",
        "bfloat16",
        "fp8",
        "fp8_e4m3",
        "fp8_e5m2",
        "nvfp4",
        "nvfp4_4over6",
    )
    head_sizes = (64, 128, 256, 512)
    sliding_window = True
    non_causal = True
    dcp = True

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        packed = nvfp4_slots(spec)
        if packed is not spec and nvfp4_content(spec.head_size) != nvfp4_content(spec.head_size_v):
            raise Refused(
                f"--kv-cache-dtype nvfp4: K heads of {spec.head_size} and V heads of {spec.head_size_v} do not pack "
                "into equal slots; choose another KV cache dtype."
            )
        return packed

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        """Pages of 128 tokens and more only where grouped queries decode with TensorRT-LLM on Blackwell."""
        kv_heads = env.num_kv_heads
        grouped = kv_heads > 0 and env.num_attention_heads // kv_heads > 1
        return _LARGE_PAGES if grouped and env.gpu.capability[0] == 10 and can_use_trtllm(env) else _PAGES

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("LBHNC", "BLHNC") if env.gpu.capability[0] == 10 else None

    def supports_device_query_lens(self, env: BackendEnv) -> bool:
        return env.gpu.capability[0] == 10 and env.decode_context_parallel_size == 1 and can_use_trtllm(env)

    def supports_kv_cache_dtype(self, env: BackendEnv, cache_dtype: str | None) -> bool:
        if cache_dtype is None or not cache_dtype.startswith("nvfp4"):
            return super().supports_kv_cache_dtype(env, cache_dtype)
        if env.gpu.capability[0] in (8, 9, 12):
            return cache_dtype == "nvfp4"
        return has_trtllm(env, is_prefill=True) and has_trtllm(env, is_prefill=False)

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        nvfp4 = query.kv_cache_dtype is not None and query.kv_cache_dtype.startswith("nvfp4")
        if nvfp4 and env.gpu.capability[0] in (8, 9, 12):
            if query.head_size == 64:
                return "misreads an NVFP4 cache at head size 64 in prefill"
            if query.has_sink:
                return "cannot read an NVFP4 cache with attention sinks"
        return None

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return (8, 0) <= capability <= (12, 1)

    def supports_sink(self, env: BackendEnv) -> bool:
        if env.use_trtllm_attention is False:
            return False
        if env.gpu.capability == (9, 0) or env.gpu.capability[0] == 12:
            return has_trtllm(env, is_prefill=False)
        return env.gpu.capability[0] == 10 and has_trtllm(env, is_prefill=True)
