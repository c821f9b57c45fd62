"""MTP of DeepSeek V3, V3.2 and GLM-4.7-Flash: MLA modules after the target's layers.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import V1, Row, changed, drafted

V3, V32 = "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2"


def rows(count: int, block: int, page: int, backend: str) -> list[Row]:
    return [("mla", count, "model.layers.61.self_attn.attn", 1, 576, block, page, None, backend)]


def test_one_module(tmp_path: Path) -> None:
    assert drafted(tmp_path, V3, None, "mtp", 1, tensor_parallel_size=8) == rows(1, 16, 18432, "FLASH_ATTN_MLA")


def test_modules_by_num_nextn_predict_layers(tmp_path: Path) -> None:
    target = changed(V3, num_nextn_predict_layers=2)
    assert drafted(tmp_path, target, None, "mtp", 2, tensor_parallel_size=8) == rows(2, 16, 18432, "FLASH_ATTN_MLA")


def test_modules_by_hf_overrides(tmp_path: Path) -> None:
    options: dict[str, Any] = {"gpu": "B200", "hf_overrides": {"num_nextn_predict_layers": 2}}
    assert drafted(tmp_path, V3, None, "mtp", 2, tensor_parallel_size=8, **options) == rows(
        2, 32, 36864, "FLASHINFER_MLA"
    )


@pytest.mark.parametrize(
    ("own", "page", "backend"),
    [({"kv_cache_dtype": "fp8"}, 9216, "TRITON_MLA"), ({"attention_backend": "TRITON_MLA"}, 18432, "TRITON_MLA")],
)
def test_a_dtype_or_backend_of_its_own(tmp_path: Path, own: dict[str, str], page: int, backend: str) -> None:
    got = drafted(tmp_path, V3, None, "mtp", 1, tensor_parallel_size=8, speculative=own)
    assert got == rows(1, 16, page, backend)


def test_v1_selects_another_backend_than_the_target_asks_for(tmp_path: Path) -> None:
    got = drafted(tmp_path, V3, None, "mtp", 1, tensor_parallel_size=8, attention_backend="FLASHMLA", env=V1)
    assert got == rows(1, 64, 73728, "FLASH_ATTN_MLA")


def test_v32_has_an_indexer(tmp_path: Path) -> None:
    indexer = "model.layers.61.self_attn.indexer.k_cache"
    assert drafted(tmp_path, V32, None, "mtp", 1, tensor_parallel_size=8) == [
        ("mla", 1, indexer, 1, 132, 64, 8448, None, "DEEPSEEK_V32_INDEXER"),
        ("mla", 1, "model.layers.61.self_attn.attn", 1, 576, 64, 73728, None, "FLASH_ATTN_MLA_SPARSE"),
    ]


def test_glm_4_7_flash(tmp_path: Path) -> None:
    assert drafted(tmp_path, "zai-org/GLM-4.7-Flash", None, "mtp", 1, gpu="B200", block_size=256) == [
        ("mla", 1, "model.layers.47.self_attn.attn", 1, 576, 256, 294912, None, "FLASHINFER_MLA")
    ]
