"""Dense MLA: one latent per token (vllm/v1/attention/backends/mla/, mla_attention.py of vllm's attention layers).

Assumed, as in vLLM's CUDA wheel: FlashMLA, FlashInfer and tokenspeed-mla are installed.
"""

from __future__ import annotations

from kvplan.backends import fa_version
from kvplan.backends.base import (
    FLOAT_CACHE,
    FP8_CACHE,
    Backend,
    BackendEnv,
    KernelSizes,
    Query,
    is_per_token_head,
)
from kvplan.dtypes import size_of
from kvplan.spec import AttentionSpec, MultipleOf, Spec


class MLABackend(Backend):
    """What all dense MLA backends share (`MLACommonBackend`)."""

    kv_cache_dtypes: tuple[str, ...] = FP8_CACHE
    head_sizes: tuple[int, ...] = (320, 512, 576)
    mla = True
    pcp = True
    dcp = True
    sizes: KernelSizes = ()

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return self.sizes

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        """Per-token-head modes: a pair of float32 scales behind the latent."""
        if spec.state_content_bytes is not None or not is_per_token_head(spec.kv_quant_mode):
            return spec
        head_size = spec.head_size // 2 if spec.kv_quant_mode == "int4_per_token_head" else spec.head_size
        return spec._replace(state_content_bytes=head_size * size_of(spec.dtype) + 2 * size_of("float32"))


class FlashInferMLA(MLABackend):
    """vllm/v1/attention/backends/mla/flashinfer_mla.py."""

    key = name = "FLASHINFER_MLA"
    sizes = (32, 64)
    non_causal = True
    non_causal_dcp = True

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] == 10

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        nope = env.qk_nope_head_dim if env.qk_nope_head_dim is not None else 1
        return None if nope in (64, 128, 192) else f"needs qk_nope_head_dim 64, 128 or 192, not {nope}"


class TokenspeedMLA(MLABackend):
    """vllm/v1/attention/backends/mla/tokenspeed_mla.py."""

    key = name = "TOKENSPEED_MLA"
    kv_cache_dtypes = ("fp8", "fp8_e4m3")
    sizes = (32, 64)
    non_causal = True
    non_causal_dcp = True

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] == 10

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        dims = tuple(dim or 0 for dim in (env.qk_nope_head_dim, env.qk_rope_head_dim, env.v_head_dim))
        if dims == (128, 64, 128):
            return None
        return (
            f"needs qk_nope_head_dim 128, qk_rope_head_dim 64 and v_head_dim 128, not {dims[0]}, {dims[1]}, {dims[2]}"
        )


class CutlassMLA(MLABackend):
    """vllm/v1/attention/backends/mla/cutlass_mla.py."""

    key = name = "CUTLASS_MLA"
    sizes = (128,)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] == 10


class FlashAttnMLA(MLABackend):
    """vllm/v1/attention/backends/mla/flashattn_mla.py."""

    key = name = "FLASH_ATTN_MLA"
    kv_cache_dtypes = FLOAT_CACHE
    sizes = (MultipleOf(16),)
    batch_invariance = True

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] == 9

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        return None if fa_version.is_supported(3, env) else "needs FA3, which runs on Hopper only"


class FlashMLA(MLABackend):
    """vllm/v1/attention/backends/mla/flashmla.py."""

    key = name = "FLASHMLA"
    sizes = (64,)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] in (9, 10)

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        """Dense kernels on Hopper; vLLM asks about the sparse ones too where a sparse layer considers it."""
        major = env.gpu.capability[0]
        if query.use_sparse:
            return None if major in (9, 10) else "has sparse kernels on Hopper and datacenter Blackwell only"
        return None if major == 9 else "has dense kernels on Hopper only"


class TritonMLA(MLABackend):
    """vllm/v1/attention/backends/mla/triton_mla.py."""

    key = name = "TRITON_MLA"
    head_sizes: tuple[int, ...] = ()
    sizes = (MultipleOf(16),)
    non_causal = True
    batch_invariance = True


class Dots3NoteTritonMLA(TritonMLA):
    """TRITON_MLA of NOTE's sliding-window layers (vllm/models/dots3_note/nvidia/attention.py)."""

    key = "DOTS3_NOTE_TRITON_MLA"
    head_sizes = (1088,)
    sliding_window = True
