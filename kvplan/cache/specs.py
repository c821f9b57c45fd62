"""From a declared layer to its spec, once the block sizes are known (the `get_kv_cache_spec` of vLLM's layers)."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.backends.base import Backend, BackendEnv
from kvplan.blocks import BlockSizes
from kvplan.errors import Refused
from kvplan.layers import AttentionLayer, MLALayer, StateLayer
from kvplan.spec import (
    CHUNKED_LOCAL,
    CROSS_ATTENTION,
    FULL_ATTENTION,
    MLA,
    SLIDING_WINDOW,
    SLIDING_WINDOW_MLA,
    AttentionSpec,
    MultipleOf,
    StateSpec,
)

# Bytes of one token in the packed formats of sparse MLA (vllm/model_executor/layers/attention/mla_attention.py).
_PACKED_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}


class KVDtype(NamedTuple):
    """How one layer stores keys and values."""

    name: str
    """The KV cache dtype as a flag value: ``auto``, ``fp8``, ..."""
    element: str
    """Its element type."""
    quant_mode: str


def attention_spec(
    layer: AttentionLayer, backend: Backend, env: BackendEnv, dtype: KVDtype, sizes: BlockSizes
) -> AttentionSpec | None:
    """The spec of an `Attention` layer; None where it caches nothing (encoder attention, another layer's cache)."""
    if layer.attn_type in ("encoder", "encoder_only") or layer.kv_sharing_target is not None:
        return None
    value_size = layer.head_size if layer.head_size_v is None else layer.head_size_v
    spec = AttentionSpec(
        kind=layer.kind or FULL_ATTENTION,
        block_size=sizes.block_size,
        num_kv_heads=layer.num_kv_heads,
        head_size=layer.head_size,
        head_size_v=value_size,
        dtype=dtype.element,
        kv_quant_mode=dtype.quant_mode,
        **dict(layer.spec_fields),
    )
    if layer.attn_type == "encoder_decoder":
        return spec._replace(kind=CROSS_ATTENTION, head_size_v=layer.head_size)
    if layer.attention_chunk_size is not None:
        return spec._replace(
            kind=CHUNKED_LOCAL, head_size_v=layer.head_size, attention_chunk_size=layer.attention_chunk_size
        )
    if layer.sliding_window is not None and layer.kind is None:
        return _window_spec(spec, layer.sliding_window, backend, env, sizes)
    return spec


def _window_spec(
    spec: AttentionSpec, window: int, backend: Backend, env: BackendEnv, sizes: BlockSizes
) -> AttentionSpec:
    """A sliding layer chooses its own block: the largest kernel block whose page fits the primary page."""
    one = backend.customize(
        env, spec._replace(kind=SLIDING_WINDOW, sliding_window=window, block_size=1, page_size_padded=None)
    )
    per_token = one.unpadded_page_size_bytes
    budget = sizes.skip_page_size_padded or per_token * sizes.block_size
    return spec._replace(
        kind=SLIDING_WINDOW,
        sliding_window=window,
        block_size=largest_kernel_block(backend.kernel_block_sizes(env, one), per_token, budget, sizes.block_size),
        page_size_padded=sizes.skip_page_size_padded,
    )


def largest_kernel_block(
    kernel_block_sizes: tuple[int | MultipleOf, ...], bytes_per_token: int, budget: int, fallback: int
) -> int:
    """The largest supported block, in tokens, whose page fits ``budget`` bytes; the smallest where none does."""
    most = budget // bytes_per_token
    candidates = [
        max(size.base, most // size.base * size.base) if isinstance(size, MultipleOf) else size
        for size in kernel_block_sizes
    ]
    if not candidates:
        return fallback
    fitting = [size for size in candidates if size * bytes_per_token <= budget]
    return max(fitting) if fitting else min(candidates)


def mla_spec(layer: MLALayer, dtype: KVDtype, sizes: BlockSizes) -> AttentionSpec:
    """The spec of an `MLAAttention` layer: one latent per token and no value."""
    spec = AttentionSpec(
        kind=MLA,
        block_size=sizes.block_size,
        num_kv_heads=1,
        max_tp_shards=1,
        head_size=layer.head_size,
        head_size_v=0,
        dtype=dtype.element,
        kv_quant_mode=dtype.quant_mode,
        cache_dtype_str=dtype.name,
        state_content_bytes=_PACKED_LATENT_BYTES.get(dtype.name),
    )
    if layer.sliding_window is not None:
        return spec._replace(kind=SLIDING_WINDOW_MLA, sliding_window=layer.sliding_window)
    return spec._replace(
        topk_buffer_width=layer.topk_buffer_width,
        is_index_group_leader=layer.has_indexer,
        non_causal_multi_token_decode=layer.non_causal_multi_token_decode,
    )


def state_spec(
    layer: StateLayer,
    sizes: BlockSizes,
    *,
    mamba_cache_mode: str,
    num_speculative_tokens: int,
    checkpoint_grid: int | None,
) -> StateSpec:
    """The spec of a Mamba-like layer.

    ``checkpoint_grid``: token grid of prefill checkpoints where every state layer of the worker exports them on one.
    """
    alignment = layer.prefill_checkpoint_alignment
    if alignment is None and layer.shared_checkpoint_alignment is not None:
        alignment = checkpoint_grid
    speculative = layer.num_speculative_blocks
    spec = StateSpec(
        shapes=layer.shapes,
        dtypes=layer.dtypes,
        block_size=sizes.mamba_block_size or 0,
        page_size_padded=sizes.mamba_page_size_padded,
        mamba_type=layer.mamba_type,
        mamba_cache_mode=mamba_cache_mode,
        num_speculative_blocks=num_speculative_tokens if speculative is None else speculative,
        num_prefill_checkpoint_blocks=0 if alignment is None else 1,
        prefill_checkpoint_alignment=alignment,
        tp_replicated=layer.tp_replicated,
    )
    if spec.page_size_bytes < spec.unpadded_page_size_bytes:
        raise Refused(
            f"a state of {spec.unpadded_page_size_bytes} bytes ({layer.name or layer.mamba_type}) does not fit the "
            f"page of {spec.page_size_bytes} bytes that vLLM aligns it to, and the engine stops there; leave "
            "--mamba-ssm-cache-dtype and --mamba-cache-dtype out, or choose another drafter where it is the drafter's."
        )
    return spec


def state_bytes(layer: StateLayer) -> int:
    """Bytes of the layer's state on one rank, unpadded, as its model class reports it."""
    shapes, dtypes = layer.reported_shapes or layer.shapes, layer.reported_dtypes or layer.dtypes
    return StateSpec(shapes, dtypes, 0).unpadded_page_size_bytes
