"""A CUDA device that is not there: it has a bundled GPU's capability, memory, name and multiprocessors."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kvplan.gpus import Gpu

from . import stubs

CUDA_RUNTIME = "13.0"
"""The CUDA release that vLLM's wheel is built for."""
DEVICES = 64
"""Devices that the machine seems to have: enough for any parallel size."""
_ENVIRONMENT = {
    "VLLM_HAS_FLASHINFER_CUBIN": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}


_FOUND = SimpleNamespace()
"""CUDA's properties of the device. Changed in place: vLLM's modules keep the platform object that they found first."""


def _set(gpu: Gpu) -> None:
    """Make the device ``gpu``; what no plan depends on is as on a H200."""
    major, minor = gpu.capability
    vars(_FOUND).update(
        name=gpu.device_name,
        major=major,
        minor=minor,
        total_memory=gpu.total_memory_bytes,
        multi_processor_count=gpu.num_compute_units,
        is_integrated=0,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        warp_size=32,
        L2_cache_size=50 * 2**20,
    )


def _memory() -> tuple[int, int]:
    return _FOUND.total_memory, _FOUND.total_memory


_ANSWERS: dict[str, Callable[[], Any]] = {
    "is_available": lambda: True,
    "device_count": lambda: DEVICES,
    "current_device": lambda: 0,
    "current_device_index": lambda: 0,
    "get_device_capability": lambda: (_FOUND.major, _FOUND.minor),
    "get_device_name": lambda: _FOUND.name,
    "get_device_properties": lambda: _FOUND,
    "mem_get_info": _memory,
    "get_memory_info": _memory,
    "max_memory_allocated": lambda: 0,
    "memory_allocated": lambda: 0,
    "reset_peak_memory_stats": lambda: None,
    "is_current_stream_capturing": lambda: False,
    "synchronize": lambda: None,
    "empty_cache": lambda: None,
    "current_stream": stubs.StandIn,
}


def _fake_torch() -> None:
    """torch.cuda and torch.accelerator answer as if the device were there; torch.cuda is still not available."""
    import torch
    import torch._dynamo  # reads torch.version.cuda while it is imported

    torch.version.cuda = CUDA_RUNTIME
    for module in (torch.cuda, torch.accelerator):
        for name, answer in _ANSWERS.items():
            if hasattr(module, name) and (module, name) != (torch.cuda, "is_available"):
                setattr(module, name, lambda *args, answer=answer, **kwargs: answer())
    torch.cuda.Stream = torch.cuda.Event = torch.Event = stubs.StandIn


def _fake_triton() -> None:
    """Triton's NVIDIA driver counts as active, so that kernels can be declared."""
    try:
        import triton.backends.nvidia.driver as driver
        from triton.backends import backends
    except ImportError:
        return
    for name, backend in backends.items():
        backend.driver.is_active = staticmethod(lambda active=name == "nvidia": active)

    class Utilities:
        def get_device_properties(self, device: int) -> dict[str, int]:
            return {
                "max_shared_mem": _FOUND.shared_memory_per_block_optin,
                "max_num_regs": _FOUND.regs_per_multiprocessor,
                "multiprocessor_count": _FOUND.multi_processor_count,
                "warpSize": _FOUND.warp_size,
            }

        def __getattr__(self, name: str) -> Any:
            return stubs.StandIn()

    driver.CudaUtils = Utilities


def _fake_platform() -> None:
    """vLLM's platform is its CUDA one, with its questions to the driver answered."""
    import vllm.platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    answers: dict[str, Callable[[], Any]] = {
        "get_device_capability": lambda: DeviceCapability(_FOUND.major, _FOUND.minor),
        "get_device_name": lambda: _FOUND.name,
        "get_device_uuid": lambda: "GPU-0",
        "get_device_total_memory": lambda: _FOUND.total_memory,
        "get_all_device_numa_nodes": lambda: None,
        "get_current_memory_usage": lambda: 0.0,
        "device_count": lambda: DEVICES,
        "is_fully_connected": lambda: True,
        "is_pin_memory_available": lambda: False,
        "is_arch_support_pdl": lambda: _FOUND.major >= 9,
        "import_kernels": lambda: None,
        "set_device": lambda: None,
    }
    methods = {
        name: classmethod(lambda cls, *args, answer=answer, **kwargs: answer()) for name, answer in answers.items()
    }
    vllm.platforms._current_platform = type("FakeCudaPlatform", (CudaPlatformBase,), methods)()


def _fake_host() -> None:
    """What vLLM's helpers read of the driver, and of memory that host and device share."""
    import torch
    from vllm.utils import platform_utils, torch_utils

    platform_utils.cuda_get_device_properties = lambda device, names, init_cuda=False: tuple(
        getattr(_FOUND, name) for name in names
    )
    platform_utils.is_pin_memory_available = lambda: False
    platform_utils.is_uva_available = lambda: True
    torch_utils.get_accelerator_view_from_cpu_tensor = lambda tensor: torch.empty_like(tensor, device="meta")


def install(gpu: Gpu, packages: str | None = None) -> None:
    """Let this process believe that it has GPUs of that kind. Before vLLM is imported, once per process."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    stubs.install(packages)
    _set(gpu)
    _fake_torch()
    _fake_triton()
    _fake_platform()
    _fake_host()
    import vllm._custom_ops  # noqa: F401

    attach(gpu)


def attach(gpu: Gpu) -> None:
    """Change the device to ``gpu``: in the child that records one case."""
    _set(gpu)
    stubs.install_operators(_FOUND.major * 10 + _FOUND.minor)
