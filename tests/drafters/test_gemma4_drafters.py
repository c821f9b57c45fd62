"""Gemma 4's drafters: DSpark numbers its layers from 0; an assistant shares the target's caches.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drafter_case import changed, drafted, planned

GEMMA4 = "google/gemma-4-31B-it"


def text(**keys: Any) -> dict[str, Any]:
    return {**changed(GEMMA4)["text_config"], **keys}


def test_dspark(tmp_path: Path) -> None:
    config = text(
        architectures=["Gemma4DSparkModel"],
        num_hidden_layers=5,
        layer_types=["full_attention"] * 5,
        block_size=7,
        markov_rank=256,
        mask_token_id=4,
        target_layer_ids=[1, 15, 29, 43, 57],
    )
    assert drafted(tmp_path, GEMMA4, config, "dspark", 7) == [
        ("full_attention", 5, "model.layers.0.self_attn.attn", 4, 512, 16, 131072, None, "FLASH_ATTN")
    ]


def test_an_assistant_caches_nothing(tmp_path: Path) -> None:
    own = {"hidden_size": 1024, "num_hidden_layers": 4, "num_kv_shared_layers": 4, "num_attention_heads": 8}
    own["vocab_size_per_layer_input"] = 0
    config = {
        "architectures": ["Gemma4AssistantForCausalLM"],
        "model_type": "gemma4_assistant",
        "text_config": text(**own, num_key_value_heads=4, layer_types=["sliding_attention"] * 3 + ["full_attention"]),
        "backbone_hidden_size": 5376,
        "dtype": "bfloat16",
    }
    result = planned(tmp_path, GEMMA4, config, "mtp", 3)
    assert drafted(tmp_path, GEMMA4, config, "mtp", 3) == []
    assert (len(result.layers), result.config.num_speculative_tokens) == (60, 3)
