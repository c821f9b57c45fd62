"""What a model family declares: its layers with a cache, before backends and block sizes are known.

A family lists these declarations in the order in which vLLM creates the layers. The mechanism of `kvplan.cache`
turns each into a `CacheLayer`: it selects the attention backend, finds the block size, builds the spec and lets the
backend adjust it. A layer with rules of its own declares a `CustomLayer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes
    from kvplan.spec import Spec

Why = tuple[str, str]
"""The config field that decides the layer, and the vLLM file (with function) that reads it."""


class AttentionLayer(NamedTuple):
    """A layer of vLLM's `Attention` class or a subclass. Head counts are per tensor-parallel rank."""

    name: str
    num_heads: int
    num_kv_heads: int
    head_size: int
    why: Why
    head_size_v: int | None = None
    """None: the same as ``head_size``."""
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    """Chunked local attention (`ChunkedLocalAttention`)."""
    attn_type: str = "decoder"
    """decoder | encoder | encoder_only | encoder_decoder (cross attention)."""
    has_sink: bool = False
    alibi: bool = False
    """ALiBi slopes instead of rotary positions: not every kernel takes them."""
    cache_dtype: str | None = None
    """KV cache dtype of a layer that its class builds without the deployment's cache config; None: the deployment's."""
    kv_sharing_target: str | None = None
    """Name of the earlier layer whose cache this one reads: it then has no cache of its own."""
    backend: str | None = None
    """The backend class that the model class passes itself, under its `get_name()`; None: selected."""
    layer_index: int | None = None
    """Index that `--kv-cache-dtype-skip-layers` matches; None: read from the name."""
    kind: str | None = None
    """A spec kind other than the one that follows from the fields (rswa, sink_full_attention)."""
    spec_fields: tuple[tuple[str, Any], ...] = ()
    """Further spec fields that the layer's class sets (non_causal, rswa_window, sink_len, ...)."""


class MLALayer(NamedTuple):
    """A layer of vLLM's `MLAAttention` class: one latent per token, replicated over tensor-parallel ranks."""

    name: str
    num_heads: int
    head_size: int
    """kv_lora_rank + qk_rope_head_dim."""
    why: Why
    use_sparse: bool = False
    has_indexer: bool = False
    """Whether the layer leads an index group (it owns the indexer)."""
    topk_buffer_width: int | None = None
    sliding_window: int | None = None
    non_causal_multi_token_decode: bool = False
    backend: str | None = None
    sink_backend: str | None = None
    """The backend that the layer's class takes where the selected one has no attention sinks and this one fits."""
    cache_dtype: str | None = None
    """KV cache dtype of a layer whose class does not read `--kv-cache-dtype-skip-layers`; None: it does."""
    layer_index: int | None = None


class StateLayer(NamedTuple):
    """A layer of vLLM's `MambaBase`: state shapes per tensor-parallel rank, in vLLM's axis order."""

    name: str
    mamba_type: str
    """mamba1 | mamba2 | gdn_attention | linear_attention | short_conv | kda ... (the value of vLLM's enum)."""
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    why: Why
    backend: str = ""
    """`get_name()` of the state backend: GDN_ATTN, MAMBA2_ATTN, ..."""
    tp_replicated: bool = False
    prefill_checkpoint_alignment: int | None = None
    """Token alignment of the prefill checkpoints that the layer's own spec states; it then holds a block more."""
    shared_checkpoint_alignment: int | None = None
    """What `get_prefill_checkpoint_alignment` returns: blocks become multiples of it in align mode, and where every
    state layer returns one, each holds a checkpoint block on the common grid."""
    num_speculative_blocks: int | None = None
    """None: one per drafted token."""
    reported_shapes: tuple[tuple[int, ...], ...] | None = None
    """Where the model class reports other shapes to the platform's alignment than its layers have."""
    reported_dtypes: tuple[str, ...] | None = None
    """Where the model class reports other dtypes to the platform's alignment than its layers have."""
    stage_index: int | None = None
    """Decoder layer that it belongs to, where its name has another number."""


class CustomLayer(NamedTuple):
    """A cache with rules of its own (an indexer, a compressor, a ring): its family says how the spec is made."""

    name: str
    backend: str
    """`get_name()` of its backend."""
    make_spec: Callable[[BlockSizes], Spec | None]
    why: Why
    run_cache_dtype: str | None = None
    """KV cache dtype that its class leaves in the run's cache config, where later layers and the drafter read it."""
    kv_sharing_target: str | None = None
    """Name of the earlier layer whose cache this one reads too."""


Layer = AttentionLayer | MLALayer | StateLayer | CustomLayer
