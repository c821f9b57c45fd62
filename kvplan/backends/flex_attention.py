"""FLEX_ATTENTION (vllm/v1/attention/backends/flex_attention.py)."""

from __future__ import annotations

from kvplan.backends.base import DECODER, Backend, BackendEnv, KernelSizes
from kvplan.spec import MultipleOf, Spec


class FlexAttention(Backend):
    key = name = "FLEX_ATTENTION"
    dtypes = ("float16", "bfloat16", "float32")
    attention_types = (DECODER, "encoder_only")
    sliding_window = True
    rswa = True
    non_causal = True
    mm_prefix = True
    batch_invariance = True

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (MultipleOf(16),)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        """Blocks and tokens are read as one axis, which only token-major layer buffers allow."""
        return ("LBNHC",)
