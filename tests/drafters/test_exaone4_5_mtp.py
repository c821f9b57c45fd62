"""MTP of EXAONE 4.5: modules of the kinds that the target's first layers have.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path

from drafter_case import drafted

from tests.mtp_targets import EXAONE4_5


def test_one_windowed_module(tmp_path: Path) -> None:
    assert drafted(tmp_path, EXAONE4_5, None, "mtp", 1) == [
        ("sliding_window", 1, "mtp.layers.0.self_attn.attn", 8, 128, 16, 65536, 4096, "FLASH_ATTN")
    ]


def test_a_fourth_module_is_full(tmp_path: Path) -> None:
    target = {**EXAONE4_5, "num_nextn_predict_layers": 5}
    assert drafted(tmp_path, target, None, "mtp", 10, tensor_parallel_size=2) == [
        ("sliding_window", 4, "mtp.layers.0.self_attn.attn", 4, 128, 16, 32768, 4096, "FLASH_ATTN"),
        ("full_attention", 1, "mtp.layers.3.self_attn.attn", 4, 128, 16, 32768, None, "FLASH_ATTN"),
    ]
