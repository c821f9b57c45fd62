"""The block size that follows from the layers: vLLM's `update_block_size_for_backend` (vllm/platforms/interface.py).

Three steps, each a function: a size that every attention backend takes; for hybrids, a block whose attention page
holds one state; with mixed KV dtypes, a block whose quantised page holds a page of the unquantised layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from kvplan.backends.base import Backend, BackendEnv, smallest
from kvplan.backends.selector import preferred_block_size
from kvplan.blocks import BlockSizes
from kvplan.errors import Refused
from kvplan.spec import cdiv


class Alignment(NamedTuple):
    """What hybrid alignment reads of the model (all bytes per rank)."""

    attention_bytes_per_token: int
    """Bytes of one token in one attention layer: the model's head count and size, in the KV cache dtype."""
    state_bytes: int
    """The largest state of one layer."""
    use_mla: bool
    align_mode: bool
    """`mamba_cache_mode` is ``align``."""
    checkpoint_alignment: int
    """Common token alignment of prefill checkpoints; 1 where not every state layer exports them."""


class MixedDtypes(NamedTuple):
    """Bytes of one token in one layer, for the quantised layers and for those that are skipped."""

    primary_bytes_per_token: int
    skipped_bytes_per_token: int


def _smallest_kernel(backend: Backend, env: BackendEnv) -> int:
    """The smallest kernel block that the backend declares before specs exist, in tokens."""
    return min(map(smallest, backend.kernel_block_sizes(env)))


def align_hybrid(sizes: BlockSizes, backends: Sequence[Backend], env: BackendEnv, model: Alignment) -> BlockSizes:
    """Grow the attention block until its page holds one state, and pad the state to exactly that page.

    (`_align_hybrid_block_size`.) The padding is None where the page already equals the state.
    """
    if model.state_bytes == 0:
        return sizes
    step = max(_smallest_kernel(backends[0], env), sizes.block_size)
    common = lcm(*(_smallest_kernel(b, env) for b in backends if b.kernel_block_sizes(env)))
    if model.use_mla:
        step = max(step, 128)
    if model.align_mode:
        step = lcm(step, model.checkpoint_alignment)
    block = step * cdiv(model.state_bytes, step * model.attention_bytes_per_token)
    block = max(sizes.block_size, common * cdiv(block, common))
    page = block * model.attention_bytes_per_token
    return sizes._replace(
        block_size=block,
        mamba_block_size=block if model.align_mode else sizes.mamba_block_size,
        mamba_page_size_padded=None if page == model.state_bytes else page,
    )


def align_mixed_dtypes(sizes: BlockSizes, backend: Backend, env: BackendEnv, pages: MixedDtypes) -> BlockSizes:
    """Grow the block until a quantised page holds an unquantised one (`_align_heterogeneous_kv_block_size`)."""
    primary, skipped = pages
    if skipped == primary:
        return sizes
    if skipped < primary:
        raise Refused(
            f"a layer skipped by --kv-cache-dtype-skip-layers takes {skipped} bytes a token, less than the "
            f"{primary} bytes of a quantised one; remove the flag or choose a narrower --kv-cache-dtype."
        )
    kernel = _smallest_kernel(backend, env)
    step = max(kernel, sizes.block_size)
    required = max(skipped * kernel, sizes.mamba_page_size_padded or 0)
    block = max(sizes.block_size, step * cdiv(required, step * primary))
    page = block * primary
    return sizes._replace(
        block_size=block,
        skip_page_size_padded=page,
        mamba_page_size_padded=None if sizes.mamba_page_size_padded is None else page,
    )


def check_accepted(before: int, after: BlockSizes, backends: Sequence[Backend], env: BackendEnv) -> None:
    """Refuse an aligned block size that a sibling backend rejects (`_check_aligned_block_size`)."""
    if after.block_size == before:
        return
    rejecting = [b.name for b in backends if not b.supports_block_size(env, after.block_size)]
    if rejecting:
        raise Refused(
            f"the block size that the layers need ({after.block_size} tokens) is not taken by "
            f"{', '.join(rejecting)}; choose another --attention-backend."
        )


def resolve(
    start: BlockSizes,
    backends: Sequence[Backend],
    env: BackendEnv,
    *,
    user_specified: bool,
    hybrid: Alignment | None,
    mixed: MixedDtypes | None,
) -> BlockSizes:
    """The block sizes of one worker from its distinct attention backends in layer order.

    ``start`` has the sizes before the layers exist. A worker without attention layers keeps them.
    """
    if not backends:
        return start
    sizes = start if user_specified else start._replace(block_size=preferred_block_size(backends, env))
    before = sizes.block_size
    if hybrid is not None:
        sizes = align_hybrid(sizes, backends, env, hybrid)
    if mixed is not None:
        sizes = align_mixed_dtypes(sizes, backends[0], env, mixed)
    check_accepted(before, sizes, backends, env)
    return sizes
