"""TRITON_FLASHINFER and TRITON_FLASH_ATTN: Triton for image masks, another backend for causal queries.

Source: vllm/v1/attention/backends/composite.py, triton_flashinfer.py, triton_flash_attn.py.
"""

from __future__ import annotations

from math import lcm

from kvplan import layout
from kvplan.backends.base import Backend, BackendEnv, KernelSizes, Query
from kvplan.backends.flash_attn import HopperFlashAttn
from kvplan.backends.flashinfer import FlashInfer
from kvplan.backends.triton_attn import TritonAttn
from kvplan.errors import Refused
from kvplan.spec import AttentionSpec, MultipleOf, Spec


def intersect(first: KernelSizes, second: KernelSizes) -> KernelSizes:
    """Kernel blocks that both declarations take, in the first one's order (`_intersect_kernel_block_sizes`)."""
    shared: dict[int | MultipleOf, None] = {}
    for a in first:
        for b in second:
            if isinstance(a, MultipleOf) and isinstance(b, MultipleOf):
                shared[MultipleOf(lcm(a.base, b.base))] = None
            elif isinstance(a, MultipleOf):
                if isinstance(b, int) and b % a.base == 0:
                    shared[b] = None
            elif a % b.base == 0 if isinstance(b, MultipleOf) else a == b:
                shared[a] = None
    return tuple(shared)


class _Composite(Backend):
    """Triton first, ``causal`` for queries without an image mask; both must take the layer."""

    head_sizes = (256, 512)
    causal: Backend
    general: Backend = TritonAttn()

    @property
    def _both(self) -> tuple[Backend, Backend]:
        return self.general, self.causal

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return intersect(self.general.kernel_block_sizes(env, spec), self.causal.kernel_block_sizes(env, spec))

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return layout.candidates(backend.layouts(env) for backend in self._both)

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        packed = self.general.customize(env, spec)
        if packed != self.causal.customize(env, spec):
            raise Refused(
                f"--attention-backend {self.name}: {self.general.name} and {self.causal.name} pack a "
                f"{spec.kv_quant_mode} cache differently; choose another KV cache dtype."
            )
        return packed

    def supports_block_size(self, env: BackendEnv, block_size: int | None) -> bool:
        return bool(self.kernel_block_sizes(env)) and super().supports_block_size(env, block_size)

    def supports_head_size(self, env: BackendEnv, head_size: int) -> bool:
        return super().supports_head_size(env, head_size) and all(
            backend.supports_head_size(env, head_size) for backend in self._both
        )

    def supports_dtype(self, dtype: str) -> bool:
        return all(backend.supports_dtype(dtype) for backend in self._both)

    def supports_kv_cache_dtype(self, env: BackendEnv, cache_dtype: str | None) -> bool:
        return all(backend.supports_kv_cache_dtype(env, cache_dtype) for backend in self._both)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return all(backend.supports_capability(capability) for backend in self._both)

    def supports_mm_prefix(self, env: BackendEnv) -> bool:
        return self.general.supports_mm_prefix(env)

    def supports_device_query_lens(self, env: BackendEnv) -> bool:
        return False

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        causal = query._replace(use_mm_prefix=False)
        for backend, part in ((self.general, query), (self.causal, causal)):
            if (why := backend.combination(part, env)) is not None:
                return f"{why} (as {backend.name})"
        return None


class TritonFlashInfer(_Composite):
    key = name = "TRITON_FLASHINFER"
    causal = FlashInfer()
    sliding_window = True

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (64,)

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return capability[0] == 10 and super().supports_capability(capability)


class TritonFlashAttn(_Composite):
    key = name = "TRITON_FLASH_ATTN"
    causal = HopperFlashAttn()
    sliding_window = True
    rswa = True
