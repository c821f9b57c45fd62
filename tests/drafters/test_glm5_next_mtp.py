"""GLM-5.3-Flash's MTP modules and its DFlash2 drafter: both widen the states, so the target's block grows.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_draft_case import draft_rows

from kvplan.errors import KvplanError

CONFIG: dict[str, Any] = {
    "architectures": ["Glm5NextForConditionalGeneration"],
    "model_type": "glm5_next",
    "dtype": "bfloat16",
    "vision_config": {"model_type": "glm5_next_vision"},
    "text_config": {
        "model_type": "glm5_next_text",
        "hidden_size": 4096,
        "num_hidden_layers": 8,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 256,
        "qk_rope_head_dim": 0,
        "v_head_dim": 256,
        "mla_use_nope": True,
        "mhc": True,
        "indexer_rope_interleave": True,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "index_topk": 2048,
        "index_kpool": 4,
        "index_head_dim": 128,
        "linear_num_heads": 64,
        "linear_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 131072,
        "num_nextn_predict_layers": 2,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "indexed_attention"] * 2,
    },
}
DFLASH2: dict[str, Any] = {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention"] * 3,
    "sliding_window": 2048,
    "use_sliding_window": True,
    "max_window_layers": 3,
    "max_position_embeddings": 131072,
    "vocab_size": 154880,
    "is_causal": False,
    "dflash_config": {
        "block_size": 8,
        "conv_group_size": 16,
        "conv_kernel_size": 2,
        "mask_token_id": 154856,
        "selector_rank": 256,
        "selector_top_k": 16,
        "target_layer_ids": [1, 3, 6],
    },
}
DFLASH = {"method": "dflash", "num_speculative_tokens": 7}


def module(index: int, block: int, indexer: int, latent: int) -> list[tuple[str, str, int, int]]:
    prefix = f"model.layers.{index}.self_attn"
    return [
        (f"{prefix}.indexer.k_cache", "mla", block, indexer),
        (f"{prefix}.indexer.tail_cache", "circular_buffer", 8, 4096),
        (f"{prefix}.attn", "mla", block, latent),
    ]


@pytest.mark.parametrize(
    ("gpu", "tokens", "pages"), [("H200", 2, (2176, 71808, 2228224)), ("B200", 4, (4480, 147840, 2293760))]
)
def test_each_module_has_all_three_caches(tmp_path: Path, gpu: str, tokens: int, pages: tuple[int, int, int]) -> None:
    speculative = {"method": "mtp", "num_speculative_tokens": tokens}
    found = draft_rows(tmp_path, CONFIG, gpu, speculative=speculative, tensor_parallel_size=2)
    assert found == module(8, *pages) + module(9, *pages)


def test_dflash2_caches_what_dflash_does(tmp_path: Path) -> None:
    found = draft_rows(tmp_path, CONFIG, "H200", DFLASH2, speculative=DFLASH, tensor_parallel_size=2)
    assert found == [(f"model.layers.{i}.self_attn.attn", "sliding_window", 2304, 4718592) for i in (8, 9, 10)]


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("selector_rank", None, "selector_rank"),
        ("conv_kernel_size", 0, "conv_kernel_size"),
        ("conv_group_size", 3, "conv_group_size must divide hidden_size"),
    ],
)
def test_dflash2_needs_the_sizes_of_its_convolutions(tmp_path: Path, key: str, value: object, named: str) -> None:
    drafter = {**DFLASH2, "dflash_config": {**DFLASH2["dflash_config"], key: value}}
    with pytest.raises(KvplanError, match=named):
        draft_rows(tmp_path, CONFIG, "H200", drafter, speculative=DFLASH, tensor_parallel_size=2)
