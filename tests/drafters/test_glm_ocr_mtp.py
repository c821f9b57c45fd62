"""MTP of GLM-OCR: layers of GLM-4, numbered after the text model's.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drafter_case import drafted

from kvplan.errors import Refused
from tests.mtp_targets import GLM_OCR


def test_one_module(tmp_path: Path) -> None:
    assert drafted(tmp_path, GLM_OCR, None, "mtp", 3, tensor_parallel_size=2) == [
        ("full_attention", 1, "model.layers.16.self_attn.attn", 4, 128, 16, 32768, None, "FLASH_ATTN")
    ]


def test_another_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="GlmOcrMTPModel drafts for GlmOcrForConditionalGeneration only"):
        drafted(tmp_path, "Qwen/Qwen3-8B", GLM_OCR, "mtp", 1)
