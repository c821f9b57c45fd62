"""openPangu Ultra MoE: latent attention in every layer, and experts in every pipeline stage.

Expected rows: what vLLM 0.33.0 plans for the same config and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused
from tests.mtp_targets import OPENPANGU

CONFIGS = (OPENPANGU,)


def test_latent_layers(tmp_path: Path) -> None:
    assert rows(tmp_path, OPENPANGU, "H200", tensor_parallel_size=2) == [
        ("mla", 6, "model.layers.0.self_attn.attn", 1, 576, 16, 18432, None)
    ]


def test_a_pipeline_stage_without_experts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="first_k_dense_replace 3 leaves the first 3 layers"):
        rows(tmp_path, OPENPANGU, "H200", pipeline_parallel_size=2)


def test_other_attention_than_latent_is_refused(tmp_path: Path) -> None:
    without = {key: value for key, value in OPENPANGU.items() if key != "v_head_dim"}
    with pytest.raises(Refused, match="v_head_dim is missing"):
        rows(tmp_path, without, "H200")
