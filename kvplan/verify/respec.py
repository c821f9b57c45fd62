"""The cache specs of a deployment as an earlier release made them: block sizes, padding and what specs then held.

0.33.0's layers are taken as they are wherever the release agrees with it. The rules name their sources in
kvplan/logs/rules.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.errors import Refused
from kvplan.logs.capacity import Alignment, hybrid_block_size
from kvplan.logs.rules import Rules
from kvplan.spec import (
    CHUNKED_LOCAL,
    FULL_ATTENTION,
    MLA,
    SINK_FULL_ATTENTION,
    SLIDING_WINDOW,
    AttentionSpec,
    CacheLayer,
    MultipleOf,
    Spec,
    StateSpec,
)

LATEST = "every_backend_checkpoints"
"""The hybrid_block rule of 0.33.0, whose block sizes are the plan's own."""
_RESIZED = frozenset((FULL_ATTENTION, SINK_FULL_ATTENTION, MLA, SLIDING_WINDOW, CHUNKED_LOCAL))
_BEFORE_BACKENDS = frozenset(("none", "multiple_of_16", "by_kind", "by_kind_but_blackwell"))
# Backends that took any multiple of 16 tokens first, or Triton in their place (TRITON_FLASHINFER is new in 0.30.0).
_FIXED_LATER = frozenset(("FLASH_ATTN", "TRITON_FLASHINFER"))
_MLA_BLOCKS = {"CUTLASS_MLA": 128, "FLASH_ATTN_MLA": 64, "FLASHMLA": 64, "FLASHINFER_MLA": 64, "FLASHMLA_SPARSE": 64}


class Sizes(NamedTuple):
    """Block sizes of a deployment under one release, in tokens."""

    block_size: int
    mamba_block_size: int | None = None
    attention_block_size: int | None = None
    """What a hybrid's start-up says that it sets the block to; None where the model has no state layers."""
    state_page_bytes: int | None = None
    """The page that a state is padded to; None where it is not padded."""
    state_padding_pct: float | None = None
    """What the padding adds to a state, in percent; None where the page already fits."""


class Base(NamedTuple):
    """What 0.33.0 resolves of the deployment: the starting point."""

    config: EngineConfig
    layers: tuple[CacheLayer, ...]
    block_size: int
    mamba_block_size: int | None


def state_mode(rules: Rules, config: EngineConfig, told: str | None) -> str:
    """mamba_cache_mode: what the log told, else what the release makes of prefix caching."""
    if not config.enable_prefix_caching or rules.mamba == "one_block":
        return "none"
    if told is not None:
        return told
    return "all" if rules.mamba == "model_length" else "align"


def sizes(rules: Rules, base: Base, mode: str) -> Sizes:
    """The block sizes of the release."""
    config = base.config
    states = [layer.spec for layer in base.layers if isinstance(layer.spec, StateSpec)]
    attention = _first_attention(base.layers)
    if not states or attention is None or not config.is_hybrid:
        block = _plain_block(rules, base, attention)
        return Sizes(block, config.max_model_len if mode == "none" else base.mamba_block_size)
    if rules.hybrid_block == LATEST:
        block = base.block_size
    elif config.kv_cache_dtype_skip_layers:
        raise Refused(
            f"--kv-cache-dtype-skip-layers of a hybrid model is not verified for vLLM {rules.release}; only for 0.33.0."
        )
    else:
        block = _hybrid_block(rules, base, attention, states, mode)
    return _hybrid_sizes(block, attention, states, mode, config)


def _hybrid_sizes(
    block: int, attention: CacheLayer, states: Sequence[StateSpec], mode: str, config: EngineConfig
) -> Sizes:
    page, largest = block * _bytes_per_token(attention), _largest(states)
    return Sizes(
        block_size=block,
        mamba_block_size=config.max_model_len if mode == "none" else block,
        attention_block_size=block,
        state_page_bytes=None if page == largest else page,
        state_padding_pct=None if page == largest else 100 * (page - largest) / largest,
    )


def _hybrid_block(rules: Rules, base: Base, attention: CacheLayer, states: Sequence[StateSpec], mode: str) -> int:
    config = base.config
    smallest = [_smallest(rules, config, layer) for layer in base.layers if isinstance(layer.spec, AttentionSpec)]
    start = config.block_size if config.user_specified_block_size else 16
    if not config.user_specified_block_size and rules.hybrid_block not in _BEFORE_BACKENDS and start % smallest[0]:
        start = smallest[0]
    checkpoints = [spec.prefill_checkpoint_alignment for spec in states]
    chunk = _chunk(rules, config) if mode == "all" and rules.hybrid_block != "multiple_of_16" else 1
    head_256 = isinstance(attention.spec, AttentionSpec) and attention.spec.head_size == 256
    return hybrid_block_size(
        rules,
        state_bytes=_largest(states),
        attention_bytes_per_token=_bytes_per_token(attention),
        block_size=start,
        mode=mode,
        alignment=Alignment(
            smallest_kernel_block=smallest[0],
            every_smallest_kernel_block=tuple(smallest),
            mla=config.use_mla,
            cutlass_mla=config.attention_backend == "CUTLASS_MLA",
            blackwell_head_256=head_256
            and config.gpu.capability == (10, 0)
            and config.attention_backend in (None, "FLASHINFER"),
            chunk=chunk,
            checkpoint=max([size for size in checkpoints if size is not None], default=1),
        ),
    )


def _chunk(rules: Rules, config: EngineConfig) -> int:
    """Tokens that the state kernels run at a time, which blocks of the all mode are a multiple of."""
    text = config.target.text
    found = config.args.mamba_block_size or text.get("mamba_chunk_size") or text.get("chunk_size")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise Refused(
            f"mamba_cache_mode 'all' of vLLM {rules.release} needs the chunk size of the state layers, which "
            f"{text.where} does not name; verify a start-up without prefix caching."
        )
    return found


def _plain_block(rules: Rules, base: Base, attention: CacheLayer | None) -> int:
    """The block size of a model whose layers do not ask for another."""
    config = base.config
    if config.user_specified_block_size or attention is None:
        return config.block_size
    if rules.plain_block == "every_backend":
        return base.block_size
    if config.use_mla:
        return base.block_size if rules.mla_block == "preferred" else _mla_block(rules, config, attention)
    if rules.plain_block == "default":
        return 16
    first = next(layer for layer in base.layers if isinstance(layer.spec, AttentionSpec))
    return _preferred(_kernel_blocks(rules, config, first))


def _preferred(sizes: Sequence[int | MultipleOf]) -> int:
    """16 tokens where the backend takes that, else its smallest block."""
    taken = any(16 % size.base == 0 if isinstance(size, MultipleOf) else size == 16 for size in sizes)
    return 16 if taken or not sizes else _least(sizes)


def _mla_block(rules: Rules, config: EngineConfig, attention: CacheLayer) -> int:
    """The block that the platform forced for MLA, by the backend that was asked for or that the GPU has."""
    asked = config.attention_backend
    if asked is not None:
        return _MLA_BLOCKS.get(asked, 16)
    if "SPARSE" in attention.backend:
        return 64
    if config.gpu.capability[0] == 9:
        return 64
    if config.gpu.capability[0] != 10 or rules.mla_block == "flashmla":
        return 16
    return 64 if rules.mla_block == "flashinfer" else 128


def respec(rules: Rules, base: Base, made: Sizes) -> tuple[CacheLayer, ...]:
    """The layers with the specs that the release gives them."""
    known: dict[tuple[Spec, str], Spec] = {}
    out = []
    for layer in base.layers:
        key = (layer.spec, layer.backend)
        if key not in known:
            known[key] = _respec(rules, base, made, layer)
        out.append(layer._replace(spec=known[key]))
    return tuple(out)


def _respec(rules: Rules, base: Base, made: Sizes, layer: CacheLayer) -> Spec:
    spec = layer.spec
    if isinstance(spec, StateSpec):
        return _state(rules, made, spec)
    if rules.block_stride == "page":
        spec = spec._replace(block_stride_alignment=None)
    if rules.window_block == "configured":
        spec = spec._replace(non_causal=False)  # a spec has told it from 0.24.0 on
    block = _block_of(rules, base, made, layer)
    if block == spec.block_size:
        return spec
    if spec.kind not in _RESIZED or spec.tokens_per_state != 1:
        raise Refused(
            f"{layer.name} has a {spec.kind} cache whose block size under vLLM {rules.release} is not verified; "
            "name 0.33.0 with --assume-engine if that is what ran."
        )
    return spec.rebuilt(block_size=block, page_size_padded=None)


def _block_of(rules: Rules, base: Base, made: Sizes, layer: CacheLayer) -> int:
    """Tokens in a block of an attention-like layer."""
    spec = layer.spec
    if spec.kind != SLIDING_WINDOW:
        return made.block_size if spec.block_size == base.block_size else spec.block_size
    if rules.window_block == "configured":
        return made.block_size
    if rules.window_block == "smallest_kernel_block":
        return _smallest(rules, base.config, layer)
    return spec.block_size if made.block_size == base.block_size else _largest_that_fits(layer, made.block_size)


def _largest_that_fits(layer: CacheLayer, block_size: int) -> int:
    """The largest kernel block, in tokens, that is no wider than a block of ``block_size`` tokens."""
    sizes = [
        size if isinstance(size, int) else max(size.base, block_size // size.base * size.base)
        for size in layer.kernel_block_sizes
    ]
    fitting = [size for size in sizes if size <= block_size]
    return max(fitting) if fitting else min(sizes, default=block_size)


def _state(rules: Rules, made: Sizes, spec: StateSpec) -> StateSpec:
    if rules.hybrid_block == LATEST:
        return spec
    counted = spec.num_prefill_checkpoint_blocks if rules.mamba.startswith("checkpoints") else 0
    return spec._replace(
        block_size=made.mamba_block_size or spec.block_size,
        page_size_padded=made.state_page_bytes,
        num_prefill_checkpoint_blocks=counted,
    )


def _first_attention(layers: Sequence[CacheLayer]) -> CacheLayer | None:
    """The target's first layer with a cache of every token."""
    for layer in layers:
        if layer.owner == "target" and layer.spec.kind in (FULL_ATTENTION, SINK_FULL_ATTENTION, MLA):
            return layer
    return next((layer for layer in layers if isinstance(layer.spec, AttentionSpec)), None)


def _bytes_per_token(layer: CacheLayer) -> int:
    return layer.spec.unpadded_page_size_bytes // layer.spec.block_size


def _largest(states: Sequence[StateSpec]) -> int:
    return max(spec.unpadded_page_size_bytes for spec in states)


def _smallest(rules: Rules, config: EngineConfig, layer: CacheLayer) -> int:
    """The smallest kernel block of the layer's backend, in tokens."""
    return _least(_kernel_blocks(rules, config, layer)) if layer.kernel_block_sizes else 16


def _kernel_blocks(rules: Rules, config: EngineConfig, layer: CacheLayer) -> tuple[int | MultipleOf, ...]:
    """The kernel blocks that the layer's backend took in the release: FlashAttention's were not fixed at first."""
    if layer.backend not in _FIXED_LATER or rules.flash_attn_blocks == "by_head_and_fp8":
        return layer.kernel_block_sizes
    if rules.flash_attn_blocks == "by_head" and config.gpu.capability[0] != 9:
        return layer.kernel_block_sizes
    return (MultipleOf(16),)


def _least(sizes: Sequence[int | MultipleOf]) -> int:
    return min(size.base if isinstance(size, MultipleOf) else size for size in sizes)
