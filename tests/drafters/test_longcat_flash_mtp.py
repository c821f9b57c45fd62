"""MTP of LongCat-Flash: one MLA layer, after two attention layers per layer of the target.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drafter_case import changed, drafted

TARGET = {"mla_scale_q_lora": True, "mla_scale_kv_lora": True, "zero_expert_type": "identity"}


def target() -> dict[str, Any]:
    return changed("meituan-longcat/LongCat-Flash-Chat", **TARGET)


def test_one_module(tmp_path: Path) -> None:
    assert drafted(tmp_path, target(), None, "mtp", 1, tensor_parallel_size=8) == [
        ("mla", 1, "model.layers.56.self_attn.attn", 1, 576, 16, 18432, None, "FLASH_ATTN_MLA")
    ]


def test_two_tokens_with_fp8(tmp_path: Path) -> None:
    options: dict[str, Any] = {"gpu": "B200", "tensor_parallel_size": 8, "kv_cache_dtype": "fp8"}
    assert drafted(tmp_path, target(), None, "mtp", 2, **options) == [
        ("mla", 1, "model.layers.56.self_attn.attn", 1, 576, 32, 18432, None, "FLASHINFER_MLA")
    ]
