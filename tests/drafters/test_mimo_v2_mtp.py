"""MTP of MiMo-V2: one windowed layer with values narrower than keys.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from drafter_case import V1, drafted

NAME = "model.mtp.layers.0.self_attn.attn"


def test_flash(tmp_path: Path) -> None:
    assert drafted(tmp_path, "XiaomiMiMo/MiMo-V2-Flash", None, "mtp", 1, tensor_parallel_size=4) == [
        ("sliding_window", 1, NAME, 2, 192, 16, 20480, 128, "FLASH_ATTN_DIFFKV")
    ]


def test_omni_on_v1(tmp_path: Path) -> None:
    assert drafted(tmp_path, "XiaomiMiMo/MiMo-V2.5", None, "mtp", 1, gpu="B200", tensor_parallel_size=8, env=V1) == [
        ("sliding_window", 1, NAME, 1, 192, 16, 10240, 128, "FLASH_ATTN_DIFFKV")
    ]
