"""FLASH_ATTN and the backends that derive from it (vllm/v1/attention/backends/flash_attn.py)."""

from __future__ import annotations

from kvplan.backends import fa_version
from kvplan.backends.base import ALL_ATTENTION_TYPES, FP8_CACHE, Backend, BackendEnv, KernelSizes, Query, is_quantized
from kvplan.spec import AttentionSpec, MultipleOf, Spec

_SM90_FP8_PAGE_SIZE = 64


class FlashAttn(Backend):
    key = name = "FLASH_ATTN"
    kv_cache_dtypes: tuple[str, ...] = FP8_CACHE
    attention_types: tuple[str, ...] = ALL_ATTENTION_TYPES
    sliding_window = True
    rswa = True
    non_causal = True
    batch_invariance = True
    dcp = True

    def _own_head_size_v(self, env: BackendEnv) -> int | None:
        """V head size assumed before specs exist; None: the same as the head size."""
        return None

    def _page_size(self, env: BackendEnv, spec: Spec | None) -> int | None:
        """Tokens of the only page that the chosen kernel reads; None: multiples of 16 tokens."""
        if spec is None:
            head_size, head_size_v = env.head_size, self._own_head_size_v(env)
            fp8 = env.cache_dtype in ("fp8", "fp8_e4m3")
        elif isinstance(spec, AttentionSpec):
            head_size, head_size_v = spec.head_size, spec.head_size_v
            fp8 = spec.kv_quant_mode == "fp8_per_tensor"
        else:
            return None
        hopper = env.gpu.capability[0] == 9
        if hopper and fp8 and head_size == 512 and fa_version.version(env, head_size=head_size) == 4:
            return _SM90_FP8_PAGE_SIZE
        if fa_version.uses_hd256_kernel(env, head_size, head_size_v):
            chosen = fa_version.version(env, head_size=head_size, head_size_v=head_size_v, supports_hd256=True)
            return fa_version.HD256_PAGE_SIZE if chosen == 4 else None
        return None

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        page = self._page_size(env, spec)
        return (MultipleOf(16),) if page is None else (page,)

    def preferred_block_size(self, env: BackendEnv, default: int) -> int:
        page = self._page_size(env, None)
        return super().preferred_block_size(env, default) if page is None else max(default, page)

    def supports_head_size(self, env: BackendEnv, head_size: int) -> bool:
        if head_size % 8:
            return False
        return head_size <= 256 or (head_size <= 512 and fa_version.is_supported(4, env))

    def supports_kv_cache_dtype(self, env: BackendEnv, cache_dtype: str | None) -> bool:
        if cache_dtype is None:
            return True
        if cache_dtype not in self.kv_cache_dtypes:
            return False
        return not is_quantized(cache_dtype) or fa_version.takes_fp8_cache(env, cache_dtype)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability >= (8, 0)

    def supports_sink(self, env: BackendEnv) -> bool:
        return fa_version.version(env) in (3, 4)

    def supports_mm_prefix(self, env: BackendEnv) -> bool:
        return fa_version.is_supported(4, env)

    def supports_per_head_scales(self, env: BackendEnv) -> bool:
        chosen = fa_version.version(env)
        return chosen is not None and chosen >= 3

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        cache_dtype, quantized = query.kv_cache_dtype, is_quantized(query.kv_cache_dtype)
        if query.has_sink and env.gpu.capability < (9, 0):
            return "has attention sinks from compute capability 9.0 on"
        if query.use_mm_prefix and quantized and env.gpu.capability == (9, 0):
            return "cannot mask image tokens over an FP8 cache on Hopper"
        if quantized and not fa_version.takes_fp8_cache(
            env,
            cache_dtype or "",
            head_size=query.head_size,
            has_sinks=query.has_sink,
            block_size=query.block_size,
            supports_hd256=True,
        ):
            return "reads an FP8 cache with FA3 on Hopper, FA4 at head size 512 there, or FA4 on Blackwell"
        if query.use_mm_prefix and _query_version(query, env) != 4:
            return f"masks image tokens with FA4 only, which does not take head size {query.head_size} here"
        return None


def _query_version(query: Query, env: BackendEnv) -> int | None:
    return fa_version.version(
        env,
        head_size=query.head_size,
        has_sinks=query.has_sink,
        block_size=query.block_size,
        supports_hd256=True,
    )


class FlashAttnDiffKV(FlashAttn):
    """K and V heads of different sizes (vllm/v1/attention/backends/flash_attn_diffkv.py)."""

    key = name = "FLASH_ATTN_DIFFKV"

    def _own_head_size_v(self, env: BackendEnv) -> int | None:
        return env.diffkv_head_size_v


class HopperFlashAttn(FlashAttn):
    """The causal half of TRITON_FLASH_ATTN (vllm/v1/attention/backends/triton_flash_attn.py)."""

    key = "TRITON_FLASH_ATTN_CAUSAL"

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] == 9

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        if (why := super().combination(query, env)) is not None:
            return why
        if _query_version(query, env) not in (3, 4):
            return "needs FA3 or FA4 for causal queries"
        return None


def runs_diffkv(env: BackendEnv, head_size: int, head_size_v: int, has_sinks: bool) -> bool:
    """Whether FlashAttention runs K and V heads of these sizes here: the model classes then take FLASH_ATTN_DIFFKV.

    Source: `FlashAttentionDiffKVBackend.is_supported_on_current_device`; where it is false vLLM's MiMo-V2 takes
    TRITON_ATTN_DIFFKV.
    """
    chosen = fa_version.version(env, head_size=head_size, head_size_v=head_size_v, has_sinks=has_sinks)
    return chosen in (3, 4)
