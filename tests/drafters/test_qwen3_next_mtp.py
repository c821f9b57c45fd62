"""MTP of Qwen3-Next and Qwen3.5: one full-attention layer, numbered from 0, in the target's block.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drafter_case import V1, drafted

NAME = "mtp.layers.0.self_attn.attn"


def test_qwen3_next(tmp_path: Path) -> None:
    assert drafted(tmp_path, "Qwen/Qwen3-Next-80B-A3B-Instruct", None, "mtp", 2, tensor_parallel_size=4) == [
        ("full_attention", 1, NAME, 1, 256, 320, 327680, None, "FLASH_ATTN")
    ]


def test_qwen3_5(tmp_path: Path) -> None:
    assert drafted(tmp_path, "Qwen/Qwen3.5-9B", None, "mtp", 1) == [
        ("full_attention", 1, NAME, 4, 256, 576, 2359296, None, "FLASH_ATTN")
    ]


def test_without_prefix_caching_on_v1(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tensor_parallel_size": 2, "enable_prefix_caching": False, "env": V1}
    assert drafted(tmp_path, "Qwen/Qwen3-Next-80B-A3B-Instruct", None, "mtp", 1, gpu="B200", **options) == [
        ("full_attention", 1, NAME, 1, 256, 544, 557056, None, "FLASHINFER")
    ]


def test_a_backend_of_its_own(tmp_path: Path) -> None:
    own = {"attention_backend": "TRITON_ATTN"}
    assert drafted(tmp_path, "Qwen/Qwen3.6-35B-A3B-FP8", None, "mtp", 2, speculative=own) == [
        ("full_attention", 1, NAME, 2, 256, 1088, 2228224, None, "TRITON_ATTN")
    ]
