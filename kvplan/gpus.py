"""GPUs by name: what vLLM reads of a device, and what defaults and backends follow from it."""

from __future__ import annotations

from typing import NamedTuple


class Gpu(NamedTuple):
    """One CUDA device as vLLM sees it."""

    name: str
    """kvplan's name of it: B300, H200, ..."""
    capability: tuple[int, int]
    total_memory_bytes: int
    """As the driver reports it (torch's ``total_memory``)."""
    device_name: str
    num_compute_units: int = 132
    """Streaming multiprocessors."""
