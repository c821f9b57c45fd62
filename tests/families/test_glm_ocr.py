"""GLM-OCR caches what its text model, a GLM-4, caches; its vision tower limits tensor parallelism.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused
from tests.mtp_targets import GLM_OCR

CONFIGS = (GLM_OCR,)


def test_layers_of_the_text_model(tmp_path: Path) -> None:
    assert rows(tmp_path, GLM_OCR, "H200", tensor_parallel_size=2) == [
        ("full_attention", 16, "language_model.model.layers.0.self_attn.attn", 4, 128, 16, 32768, None)
    ]


def test_a_vision_tower_that_cannot_be_split_is_refused(tmp_path: Path) -> None:
    config = {**GLM_OCR, "vision_config": {**GLM_OCR["vision_config"], "num_heads": 3}}
    with pytest.raises(Refused, match=r"vision_config\.num_heads 3"):
        rows(tmp_path, config, "H200", tensor_parallel_size=2)
