"""Which FlashAttention version vLLM runs (vllm/v1/attention/backends/fa_utils.py, `get_flash_attn_version`).

Assumed, as in vLLM's CUDA wheel: FA2, FA3 and FA4 are all built in.
"""

from __future__ import annotations

from kvplan.backends.base import BackendEnv, is_quantized

HD256_PAGE_SIZE = 128
"""Tokens of the pages that FA4's kernel for head size 256 reads."""


def is_supported(version: int, env: BackendEnv) -> bool:
    """Whether the GPU runs this FlashAttention version: FA2 from 8.0, FA3 on 9.x, FA4 on 9.x to 11.x."""
    major = env.gpu.capability[0]
    if version == 2:
        return major >= 8
    return major == 9 if version == 3 else major in (9, 10, 11)


def uses_hd256_kernel(env: BackendEnv, head_size: int | None, head_size_v: int | None = None) -> bool:
    """Whether FA4 would run its own kernel for head size 256 (datacenter Blackwell and Thor)."""
    return head_size == 256 and head_size_v in (None, 256) and env.gpu.capability[0] in (10, 11)


def version(
    env: BackendEnv,
    *,
    head_size: int | None = None,
    head_size_v: int | None = None,
    has_sinks: bool = False,
    block_size: int | None = None,
    supports_hd256: bool = False,
) -> int | None:
    """2, 3 or 4; None where the GPU does not run the version that the options lead to.

    ``block_size`` is the user's `--block-size`; ``supports_hd256`` whether the caller can feed the kernel for head
    size 256.
    """
    major = env.gpu.capability[0]
    chosen = env.flash_attn_version or {9: 3, 10: 4}.get(major, 2)
    if major >= 10 and chosen == 3:
        chosen = 4 if is_supported(4, env) else 2
    if chosen == 3 and major == 9 and _needs_fa4_on_hopper(env, head_size, head_size_v, has_sinks):
        chosen = 4
    if chosen == 4 and (
        env.batch_invariant
        or (
            uses_hd256_kernel(env, head_size, head_size_v)
            and not (supports_hd256 and _hd256_fits(env, has_sinks, block_size))
        )
        or (major >= 10 and not _fits_blackwell(head_size, head_size_v))
    ):
        chosen = 2
    return chosen if is_supported(chosen, env) else None


def _needs_fa4_on_hopper(env: BackendEnv, head_size: int | None, head_size_v: int | None, has_sinks: bool) -> bool:
    if head_size is not None and head_size > 256:
        return True
    different_v = head_size is not None and head_size_v is not None and head_size != head_size_v
    return (has_sinks and different_v) or env.is_diffusion


def _hd256_fits(env: BackendEnv, has_sinks: bool, block_size: int | None) -> bool:
    """`_fa4_hd256_fallback_reason` finds nothing."""
    return not (
        has_sinks
        or env.has_logits_soft_cap
        or is_quantized(env.cache_dtype)
        or (block_size is not None and block_size % HD256_PAGE_SIZE)
        or env.is_mm_prefix_lm
        or env.has_rswa
        or env.decode_context_parallel_size > 1
    )


def _fits_blackwell(head_size: int | None, head_size_v: int | None) -> bool:
    """Whether FA4's tensor memory holds the heads: up to 128, 256 alike, or 192 with 128."""
    if head_size is None or head_size <= 128:
        return True
    return (head_size == 256 and head_size_v in (None, 256)) or (head_size == 192 and head_size_v == 128)


def takes_fp8_cache(
    env: BackendEnv,
    cache_dtype: str,
    *,
    head_size: int | None = None,
    has_sinks: bool = False,
    block_size: int | None = None,
    supports_hd256: bool = False,
) -> bool:
    """Whether FlashAttention reads this FP8 cache (`flash_attn_supports_kv_cache_dtype`)."""
    if cache_dtype == "fp8_e5m2":
        return False
    chosen = version(
        env,
        head_size=head_size,
        head_size_v=head_size,
        has_sinks=has_sinks,
        block_size=block_size,
        supports_hd256=supports_hd256,
    )
    major = env.gpu.capability[0]
    if major == 9:
        return chosen == 3 or (chosen == 4 and head_size in (None, 512))
    return chosen == 4 and major == 10
