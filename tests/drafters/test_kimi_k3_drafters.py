"""Kimi-K3's MTP modules and its DSpark drafter: latent attention layers after the target's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_draft_case import draft_rows

from kvplan.errors import KvplanError

CONFIG: dict[str, Any] = {
    "architectures": ["KimiK3ForConditionalGeneration"],
    "model_type": "kimi_k3",
    "dtype": "bfloat16",
    "vision_config": {},
    "text_config": {
        "model_type": "kimi_linear",
        "hidden_size": 2304,
        "num_hidden_layers": 8,
        "num_attention_heads": 32,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "mla_use_nope": True,
        "max_position_embeddings": 131072,
        "num_nextn_predict_layers": 2,
        "linear_attn_config": {
            "kda_layers": [1, 2, 3, 5, 6, 7],
            "full_attn_layers": [4, 8],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
            "gate_lower_bound": -5.0,
        },
    },
}
DSPARK: dict[str, Any] = {
    "architectures": ["K3DSparkModel"],
    "model_type": "k3_dspark",
    "dtype": "bfloat16",
    "vocab_size": 163840,
    "hidden_size": 2304,
    "num_hidden_layers": 3,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 131072,
    "target_layer_ids": [1, 3, 6],
    "num_target_layers": 3,
    "target_hidden_size": 2304,
    "markov_rank": 256,
    "block_size": 8,
    "mask_token_id": 163838,
}


def latents(count: int, block: int) -> list[tuple[str, str, int, int]]:
    return [(f"model.layers.{i}.self_attn", "mla", block, 589824) for i in range(8, 8 + count)]


def test_two_mtp_modules(tmp_path: Path) -> None:
    speculative = {"method": "mtp", "num_speculative_tokens": 2}
    assert draft_rows(tmp_path, CONFIG, "H200", speculative=speculative, tensor_parallel_size=4) == latents(2, 512)


@pytest.mark.parametrize(
    ("gpu", "tokens", "options", "block"), [("B200", 7, {}, 512), ("H200", 3, {"kv_cache_dtype": "fp8"}, 1024)]
)
def test_dspark_has_one_latent_a_layer(
    tmp_path: Path, gpu: str, tokens: int, options: dict[str, Any], block: int
) -> None:
    speculative = {"method": "dspark", "num_speculative_tokens": tokens}
    found = draft_rows(tmp_path, CONFIG, gpu, DSPARK, speculative=speculative, tensor_parallel_size=4, **options)
    assert found == latents(3, block)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"target_hidden_size": None}, "target_hidden_size"),
        ({"markov_rank": 0}, "markov_rank"),
        ({"kv_lora_rank": -1}, "kv_lora_rank"),
        ({"num_target_layers": 2}, "num_target_layers"),
    ],
)
def test_a_broken_field_is_named(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    speculative = {"method": "dspark", "num_speculative_tokens": 7}
    with pytest.raises(KvplanError, match=named):
        draft_rows(tmp_path, CONFIG, "B200", {**DSPARK, **fields}, speculative=speculative, tensor_parallel_size=4)


def test_the_number_of_modules_is_checked(tmp_path: Path) -> None:
    config = {**CONFIG, "text_config": {**CONFIG["text_config"], "num_nextn_predict_layers": -1}}
    speculative = {"method": "mtp", "num_speculative_tokens": 2}
    with pytest.raises(KvplanError, match="num_nextn_predict_layers"):
        draft_rows(tmp_path, config, "H200", speculative=speculative, tensor_parallel_size=4)
