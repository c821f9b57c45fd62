"""EAGLE of Mistral Large 3: latent layers numbered after the target's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import changed, drafted

from kvplan.errors import KvplanError

TARGET = "deepseek-ai/DeepSeek-V3"


def drafter(**keys: Any) -> dict[str, Any]:
    own = {"architectures": ["MistralLarge3ForCausalLM"], "num_hidden_layers": 2, "first_k_dense_replace": 2}
    return changed(TARGET, **{**own, **keys})


def test_latent_layers_after_the_targets(tmp_path: Path) -> None:
    assert drafted(tmp_path, TARGET, drafter(), "eagle", 3, tensor_parallel_size=8) == [
        ("mla", 2, "model.layers.61.self_attn.attn", 1, 576, 16, 18432, None, "FLASH_ATTN_MLA")
    ]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="on one stage only"):
        drafted(tmp_path, TARGET, drafter(), "eagle", 3, tensor_parallel_size=4, pipeline_parallel_size=2)
    with pytest.raises(KvplanError, match="index_topk is set"):
        drafted(tmp_path, TARGET, drafter(index_topk=2048), "eagle", 3, tensor_parallel_size=8)
