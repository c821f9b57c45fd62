"""`python -m tests.recorder.needs`: what the installed vLLM requires, without what only a GPU would use."""

from __future__ import annotations

import importlib.metadata
import re

ONLY_CUDA = re.compile(
    r"(torch|torchaudio|torchvision|torchcodec|triton|pynvvideocodec|flashinfer.*|tilelang|nvidia-.*|nvtx|cuda-.*"
    r"|quack-kernels|humming-kernels|tokenspeed-mla|fastsafetensors|instanttensor|bitsandbytes)$"
)
"""Names of distributions that the recorder has stand-ins for, or that vLLM imports only when it loads weights."""


def needed(requirements: list[str]) -> list[str]:
    """The requirements, as pip takes them, without those of an extra and without CUDA's."""
    plain = [text for text in requirements if "extra ==" not in text]
    return [text for text in plain if not ONLY_CUDA.match(_name(text))]


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


if __name__ == "__main__":
    print("\n".join(needed(importlib.metadata.requires("vllm") or [])))
