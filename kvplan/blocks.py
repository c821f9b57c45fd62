"""Block sizes as the platform leaves them once the layers exist."""

from __future__ import annotations

from typing import NamedTuple


class BlockSizes(NamedTuple):
    """vLLM's cache_config fields after `update_block_size_for_backend` (vllm/platforms/interface.py)."""

    block_size: int
    """Tokens in a block of the primary attention."""
    mamba_block_size: int | None = None
    """Tokens between two cached states."""
    mamba_page_size_padded: int | None = None
    """Bytes that every state page is padded to; None: not padded."""
    skip_page_size_padded: int | None = None
    """Bytes that the page of a layer skipped by KV quantisation is padded to."""
