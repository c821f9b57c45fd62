"""MTP of Nemotron-H: the attention layers of mtp_hybrid_override_pattern.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drafter_case import changed, drafted

from kvplan.errors import Refused

SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"


@pytest.mark.parametrize(("pattern", "count"), [("*E", 1), ("*E*E", 2)])
def test_attention_layers_of_the_pattern(tmp_path: Path, pattern: str, count: int) -> None:
    target = changed(SUPER, mtp_hybrid_override_pattern=pattern)
    assert drafted(tmp_path, target, None, "mtp", 1, tensor_parallel_size=4) == [
        ("full_attention", count, "mtp.layers.0.mixer.attn", 1, 128, 2096, 1073152, None, "FLASH_ATTN")
    ]


def test_one_module_only(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="num_nextn_predict_layers is 2"):
        drafted(tmp_path, changed(SUPER, num_nextn_predict_layers=2), None, "mtp", 1, tensor_parallel_size=4)
