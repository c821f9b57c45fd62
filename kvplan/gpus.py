"""GPUs by name: what vLLM reads of a device, and what defaults and backends follow from it.

Sources of the numbers below:

- capability and device name: what torch.cuda reports on that device;
- total memory: NVML's total, which nvidia-smi prints in MiB and vLLM's defaults are chosen by (`CudaPlatform.
  get_device_total_memory`, vllm/platforms/cuda.py); B200 and B300 are rounded to their nominal 192 and 288 GB
  (nvidia-smi: 183359 and 275040 MiB); the integrated GB10 and Thor have no NVML total, so vLLM takes CUDA's;
- usable memory: CUDA's total (cudaMemGetInfo), which `--gpu-memory-utilization` is a share of (`MemorySnapshot`,
  vllm/utils/mem_utils.py). It is what torch prints in out-of-memory errors ("total capacity of 139.80 GiB"), so it is
  known to 0.01 GiB; it differs by some MiB between drivers;
- SM counts: torch's multi_processor_count.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.errors import KvplanError

_GIB = 2**30
_MIB = 2**20


class Gpu(NamedTuple):
    """One CUDA device as vLLM sees it."""

    name: str
    """kvplan's name of it: B300, H200, ..."""
    capability: tuple[int, int]
    total_memory_bytes: int
    """As the driver reports it (NVML), which vLLM's defaults depend on."""
    device_name: str
    num_compute_units: int = 132
    """Streaming multiprocessors."""
    usable_memory_bytes: int | None = None
    """As CUDA reports it, to 0.01 GiB: what `--gpu-memory-utilization` is a share of. None: not known."""


def _gpu(name: str, capability: str, device_name: str, sms: int, mib: int, usable_gib: float) -> Gpu:
    major, minor = capability.split(".")
    return Gpu(name, (int(major), int(minor)), mib * _MIB, f"NVIDIA {device_name}", sms, round(usable_gib * _GIB))


def _nominal(gpu: Gpu, total_memory_bytes: int) -> Gpu:
    return gpu._replace(total_memory_bytes=total_memory_bytes)


GPUS = (
    # Ampere
    _gpu("A100 40GB", "8.0", "A100-SXM4-40GB", 108, 40960, 39.49),
    _gpu("A100 80GB", "8.0", "A100-SXM4-80GB", 108, 81920, 79.25),
    _gpu("A10", "8.6", "A10", 72, 23028, 22.06),
    _gpu("RTX 3090", "8.6", "GeForce RTX 3090", 82, 24576, 23.56),
    # Ada
    _gpu("L4", "8.9", "L4", 58, 23034, 22.03),
    _gpu("L40S", "8.9", "L40S", 142, 46068, 44.39),
    _gpu("RTX 4090", "8.9", "GeForce RTX 4090", 128, 24564, 23.52),
    # Hopper
    _gpu("H100 PCIe", "9.0", "H100 PCIe", 114, 81559, 79.19),
    _gpu("H100 SXM", "9.0", "H100 80GB HBM3", 132, 81559, 79.18),
    _gpu("H100 NVL", "9.0", "H100 NVL", 132, 95830, 93.10),
    _gpu("H200", "9.0", "H200", 132, 143771, 139.80),
    _gpu("GH200", "9.0", "GH200 480GB", 132, 97871, 94.50),
    # Blackwell
    _nominal(_gpu("B200", "10.0", "B200", 148, 183359, 178.35), 192 * 10**9),
    _nominal(_gpu("B300", "10.3", "B300 SXM6 AC", 148, 275040, 267.69), 288 * 10**9),
    _gpu("GB200", "10.0", "GB200", 152, 189471, 184.31),
    _gpu("GB300", "10.3", "GB300", 152, 284208, 276.50),
    _gpu("Thor", "11.0", "Thor", 20, 125768, 122.82),
    _gpu("RTX 5090", "12.0", "GeForce RTX 5090", 170, 32607, 31.37),
    _gpu("RTX PRO 6000", "12.0", "RTX PRO 6000 Blackwell Workstation Edition", 188, 97887, 94.97),
    _gpu("GB10", "12.1", "GB10", 48, 124611, 121.69),
)

_ALIASES = {
    "h100": "H100 SXM",
    "h10080gb": "H100 SXM",
    "h100sxm5": "H100 SXM",
    "h100sxm80gb": "H100 SXM",
    "h100pcie80gb": "H100 PCIe",
    "h100nvl94gb": "H100 NVL",
    "h200sxm": "H200",
    "a100sxm40gb": "A100 40GB",
    "a100sxm80gb": "A100 80GB",
    "a100pcie40gb": "A100 40GB",
    "a10080gbpcie": "A100 80GB",
    "a10040": "A100 40GB",
    "a10080": "A100 80GB",
    "3090": "RTX 3090",
    "4090": "RTX 4090",
    "5090": "RTX 5090",
    "pro6000": "RTX PRO 6000",
    "rtx6000pro": "RTX PRO 6000",
    "rtxpro6000blackwell": "RTX PRO 6000",
    "rtxpro6000blackwellserveredition": "RTX PRO 6000",
    "gh20096gb": "GH200",
    "b300sxm": "B300",
    "b200sxm": "B200",
    "dgxspark": "GB10",
    "agxthor": "Thor",
    "jetsonthor": "Thor",
    "jetsonagxthor": "Thor",
}
CAPABILITIES = tuple(sorted({gpu.capability for gpu in GPUS}))


def find(name: str, flag: str = "--gpu") -> Gpu:
    """The GPU that ``name`` means: a bundled name in any common spelling, or a compute capability.

    ``12.1`` is the bundled GPU of that capability, where there is only one; ``8.6:48`` is any GPU of capability 8.6
    with 48 GiB. KvplanError, naming ``flag`` and the nearest names, for anything else.
    """
    if name[:1].isdigit() and "." in name:
        return _by_capability(name, flag)
    spelling = _normal(name)
    for gpu in GPUS:
        if spelling in (_normal(gpu.name), _normal(gpu.device_name)) or _ALIASES.get(spelling) == gpu.name:
            return gpu
    raise KvplanError(
        f"{flag} {name[:60] or repr(name)} is not a GPU that kvplan knows; did you mean {_nearest(spelling)}?"
    )


def _normal(name: str) -> str:
    letters = "".join(c for c in name.lower() if c.isalnum())
    return letters.replace("nvidia", "").replace("geforce", "")


def _nearest(spelling: str) -> str:
    from difflib import get_close_matches

    begins = [gpu.name for gpu in GPUS if spelling and _normal(gpu.name).startswith(spelling)]
    by_spelling = {_normal(gpu.name): gpu.name for gpu in GPUS}
    close = [by_spelling[match] for match in get_close_matches(spelling, by_spelling, 4, 0.5)]
    return _either(begins or close or [gpu.name for gpu in GPUS])


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _by_capability(name: str, flag: str) -> Gpu:
    """``MAJOR.MINOR`` or ``MAJOR.MINOR:GIB``."""
    text, colon, memory = name.partition(":")
    major, _, minor = text.partition(".")
    known = ", ".join(f"{a}.{b}" for a, b in CAPABILITIES)
    if not (major.isdecimal() and minor.isdecimal()) or (int(major[:3]), int(minor[:3])) not in CAPABILITIES:
        raise KvplanError(f"{flag} {name[:60]} is no compute capability that kvplan knows; choose one of {known}.")
    capability = (int(major), int(minor))
    if colon:
        return Gpu(f"{text} with {memory} GiB", capability, _gib(memory, flag, name), f"NVIDIA GPU {text}")
    gpus = [gpu for gpu in GPUS if gpu.capability == capability]
    if len(gpus) > 1:
        raise KvplanError(
            f"{flag} {text} is the capability of several GPUs; name {_either([gpu.name for gpu in gpus])}, or give the "
            f"memory too, as in {text}:48 for 48 GiB."
        )
    return gpus[0]


def _gib(memory: str, flag: str, name: str) -> int:
    if not memory.isdecimal() or not 1 <= int(memory[:8]) <= 4096:
        raise KvplanError(f"{flag} {name[:60]}: the memory after the colon must be 1 to 4096 GiB.")
    return int(memory) * _GIB
