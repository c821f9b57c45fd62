"""EXAONE 4.5 caches what its text model, an EXAONE 4, caches; its vision tower limits tensor parallelism.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused
from tests.mtp_targets import EXAONE4_5

CONFIGS = (EXAONE4_5,)


def test_layers_of_the_text_model(tmp_path: Path) -> None:
    assert rows(tmp_path, EXAONE4_5, "H200", tensor_parallel_size=2) == [
        ("sliding_window", 6, "language_model.model.layers.0.self_attn.attn", 4, 128, 16, 32768, 4096),
        ("full_attention", 2, "language_model.model.layers.3.self_attn.attn", 4, 128, 16, 32768, None),
    ]


def test_a_vision_tower_that_cannot_be_split_is_refused(tmp_path: Path) -> None:
    config = {**EXAONE4_5, "vision_config": {**EXAONE4_5["vision_config"], "intermediate_size": 3421}}
    with pytest.raises(Refused, match=r"vision_config\.intermediate_size 3421"):
        rows(tmp_path, config, "H200", tensor_parallel_size=2)
