"""TURBOQUANT: K and V of a head packed into one slot (vllm/v1/attention/backends/turboquant_attn.py)."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.backends.base import Backend, BackendEnv, KernelSizes
from kvplan.spec import AttentionSpec, Spec, cdiv, round_up


class _Preset(NamedTuple):
    key_bits: int
    """8: FP8 keys, without a norm."""
    value_bits: int


# vllm/model_executor/layers/quantization/turboquant/config.py
_PRESETS = {
    "turboquant_k8v4": _Preset(8, 4),
    "turboquant_4bit_nc": _Preset(4, 4),
    "turboquant_k3v4_nc": _Preset(3, 4),
    "turboquant_3bit_nc": _Preset(3, 3),
}


def slot_bytes(preset: str, head_size: int) -> int:
    """Bytes of one head's K and V of one token: codes, the key's norm, the value's scale and zero; made even."""
    bits = _PRESETS[preset]
    key = head_size if bits.key_bits == 8 else cdiv(head_size * bits.key_bits, 8) + 2
    value = cdiv(head_size * bits.value_bits, 8) + 4
    return round_up(key + value, 2)


class TurboQuant(Backend):
    key = name = "TURBOQUANT"
    kv_cache_dtypes = tuple(_PRESETS)

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        if spec.state_content_bytes is not None or spec.kv_quant_mode not in _PRESETS:
            return spec
        return spec._replace(state_content_bytes=slot_bytes(spec.kv_quant_mode, spec.head_size))

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (16, 32, 64, 128)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("LBNHC",)

    def supports_kv_cache_dtype(self, env: BackendEnv, cache_dtype: str | None) -> bool:
        return cache_dtype is not None and cache_dtype.startswith("turboquant_")

    def supports_head_size(self, env: BackendEnv, head_size: int) -> bool:
        return head_size > 0
