"""DFlash of Laguna: full-attention caches whatever layer_types says, of one kind only.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import changed, drafted

from kvplan.errors import Refused

LAGUNA = "poolside/Laguna-S-2.1"


def drafter(kinds: list[str]) -> dict[str, Any]:
    return changed(
        LAGUNA,
        architectures=["DFlashLagunaForCausalLM"],
        num_hidden_layers=4,
        draft_vocab_size=100352,
        layer_types=kinds,
        mlp_layer_types=["dense"] * 4,
        num_attention_heads_per_layer=[48] * 4,
        dflash_config={"target_layer_ids": [1, 9, 17, 25], "mask_token_id": 5},
    )


@pytest.mark.parametrize("kind", ["sliding_attention", "full_attention"])
def test_every_kind_is_kept_in_full(tmp_path: Path, kind: str) -> None:
    assert drafted(tmp_path, LAGUNA, drafter([kind] * 4), "dflash", 7, tensor_parallel_size=4) == [
        ("full_attention", 4, "model.layers.48.self_attn.attn", 2, 128, 16, 16384, None, "FLASH_ATTN")
    ]


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    kinds = ["full_attention"] * 2 + ["sliding_attention"] * 2
    with pytest.raises(Refused, match="mixes kinds"):
        drafted(tmp_path, LAGUNA, drafter(kinds), "dflash", 7, tensor_parallel_size=4)
