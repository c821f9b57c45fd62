"""Which GPUs a log can be of: told by --gpu or by the log's own lines, else one of each kind that plans differently."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan import gpus
from kvplan.errors import KvplanError, Refused
from kvplan.logs.reading import LogReading
from kvplan.units import GIB

KINDS = (
    "H100 SXM", "A100 80GB", "L40S", "B200", "GB10", "RTX 5090", "RTX PRO 6000", "RTX 3090", "A100 40GB", "B300",
    "Thor",
)  # fmt: skip
"""One GPU of each kind that vLLM's defaults or backends tell apart: by capability and by 70 GiB of memory."""
_LARGE = 70 * GIB
_FOREIGN = re.compile(
    r"ROCM|AITER|\bAMD|XPU|INTEL|NPU|ASCEND|HUAWEI|CPU|TORCH_SDPA|PALLAS|TPU|HPU|NEURON|METAX|MUSA|KUNLUN|MLU",
    re.IGNORECASE,
)


class Devices(NamedTuple):
    """GPUs to plan for by name, and whether there is no choice left."""

    names: tuple[str, ...]
    told: bool


def devices(reading: LogReading, given: str | None) -> Devices:
    """The GPUs that the log can be of. Refused where it tells a capability that kvplan does not know."""
    if given is not None:
        return Devices((given,), True)
    if reading.gpu is not None and (named := _by_name(reading.gpu)) is not None:
        return Devices((named.name,), True)
    total, capability = reading.memory.total_gib, reading.gpu_capability
    fitting = [gpu for gpu in gpus.GPUS if _fits(gpu, total, capability)]
    if total is not None and fitting:
        return Devices(tuple(gpu.name for gpu in fitting), len(fitting) == 1)
    if total is None and capability is None:
        return Devices(KINDS, False)
    known = [gpus.find(name) for name in KINDS]
    large = None if total is None else total * GIB >= _LARGE
    kinds = [
        gpu
        for gpu in known
        if capability in (None, _text(gpu.capability)) and large in (None, gpu.total_memory_bytes >= _LARGE)
    ]
    if not kinds and capability is not None and capability not in map(_text, gpus.CAPABILITIES):
        raise Refused(f"The log's GPU has compute capability {capability}, which kvplan does not know.")
    if kinds:
        return Devices(tuple(gpu.name for gpu in kinds), False)
    size = 80 if total is None else max(round(total), 1)
    return Devices((f"{capability}:{size}",) if capability is not None else KINDS, False)


def foreign(reading: LogReading) -> str | None:
    """What is no CUDA device about the log, as it names it; None where nothing is."""
    device = (reading.engine_config or {}).get("device")
    for told in (reading.platform, reading.attention_backend, reading.gpu, device):
        if isinstance(told, str) and _FOREIGN.search(told):
            return told
    return None


def _by_name(name: str) -> gpus.Gpu | None:
    try:
        return gpus.find(name.replace("_", " "))
    except KvplanError:
        return None


def _fits(gpu: gpus.Gpu, total: float | None, capability: str | None) -> bool:
    if capability not in (None, _text(gpu.capability)):
        return False
    if total is None:
        return True
    return gpu.usable_memory_bytes is not None and abs(gpu.usable_memory_bytes / GIB - total) < 0.05


def _text(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
