"""Qwen configs that vLLM 0.33.0 refuses to build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import planned

from kvplan.errors import KvplanError

SIZES: dict[str, Any] = {"dtype": "bfloat16", "hidden_size": 2048, "num_hidden_layers": 4}
DUAL_CHUNKS = {"chunk_size": 262144, "local_size": 8192, "original_max_position_embeddings": 262144}


@pytest.mark.parametrize(
    ("architecture", "model_type"),
    [
        ("Qwen2ForCausalLM", "qwen2"),
        ("Qwen3ForCausalLM", "qwen3"),
        ("Qwen3MoeForCausalLM", "qwen3_moe"),
        ("Qwen3NextForCausalLM", "qwen3_next"),
    ],
)
def test_no_backend_takes_the_dual_chunk_attention_of_the_1m_models(
    tmp_path: Path, architecture: str, model_type: str
) -> None:
    config = SIZES | {"architectures": [architecture], "model_type": model_type}
    assert planned(tmp_path, config).plans["main"].groups
    with pytest.raises(KvplanError, match="dual_chunk_attention_config is set"):
        planned(tmp_path, config | {"dual_chunk_attention_config": DUAL_CHUNKS})
