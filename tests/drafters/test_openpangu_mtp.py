"""MTP of openPangu: latent layers numbered after the target's.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path

from drafter_case import drafted

from tests.mtp_targets import OPENPANGU


def test_three_modules(tmp_path: Path) -> None:
    target = {**OPENPANGU, "num_nextn_predict_layers": 3}
    assert drafted(tmp_path, target, None, "mtp", 6, tensor_parallel_size=2) == [
        ("mla", 3, "model.layers.6.self_attn.attn", 1, 576, 16, 18432, None, "FLASH_ATTN_MLA")
    ]
