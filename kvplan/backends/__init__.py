"""Attention and state backends: which one vLLM picks for a layer, and what follows from it.

Entry points for the pipeline:

- ``select(query, env, attention_backend=None, backend_per_kind=None, flag=...)`` -> `Selection`: the backend of one
  attention or MLA layer, and why each better-ranked one was passed over. `Query` is the layer's question, `BackendEnv`
  what backends read of the run's config; their docstrings say what goes into each field. Raises `Refused`.
- ``backend(key)`` -> `Backend`: a backend that a model class names itself, or a state backend (``GDN_ATTN``,
  ``MAMBA2_ATTN``, ...). ``backend("FLASH_ATTN@chunked_local_8192")`` is one as a layer class wraps it.
- ``customize_attention_spec(backend, env, spec)``: the layer's final spec (the worker's hook; ``backend.customize``
  alone where vLLM calls the backend's own hook, as the hybrid alignment does).
- ``backend.kernel_block_sizes(env, spec)``, ``backend.layouts(env)``, ``backend.name``, ``backend.key``: for
  `CacheLayer`, `kvplan.layout.candidates` and `kvplan.kernel_blocks`. Backends are equal where their keys are.
- ``check_batch_invariance(backends, env)``: what the worker dies of under VLLM_BATCH_INVARIANT, for all layers.
- ``preferred_block_size(backends, env, default=16)``: phase 1 of `update_block_size_for_backend`; ``backends`` are the
  distinct ones with ``not backend.ssm`` in layer order.

Before specs exist vLLM asks with ``spec=None``: the backend then reads the model's head size and cache dtype from the
environment. Files load when their backend is first considered.
"""

from kvplan.backends.base import Backend, BackendEnv, Query, Rejection, is_quantized, kv_quant_mode
from kvplan.backends.registry import backend, wrapped
from kvplan.backends.selector import (
    Selection,
    check_batch_invariance,
    customize_attention_spec,
    preferred_block_size,
    priorities,
    select,
    spec_kind,
)

__all__ = [
    "Backend",
    "BackendEnv",
    "Query",
    "Rejection",
    "Selection",
    "backend",
    "check_batch_invariance",
    "customize_attention_spec",
    "is_quantized",
    "kv_quant_mode",
    "preferred_block_size",
    "priorities",
    "select",
    "spec_kind",
    "wrapped",
]
