"""GPUs by name: what vLLM reads of a device, and what defaults and backends follow from it."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.errors import KvplanError


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


GPUS = (
    Gpu("H100 SXM", (9, 0), 85_520_809_984, "NVIDIA H100 80GB HBM3", 132),
    Gpu("H200", (9, 0), 150_754_820_096, "NVIDIA H200", 132),
    Gpu("B200", (10, 0), 192_000_000_000, "NVIDIA B200", 148),
    Gpu("B300", (10, 3), 288_000_000_000, "NVIDIA B300 SXM6 AC", 148),
)


def find(name: str) -> Gpu:
    """Bundled GPU by name."""
    for gpu in GPUS:
        if gpu.name.lower().split()[0] == name.lower():
            return gpu
    raise KvplanError(f"--gpu {name} is not bundled.")
