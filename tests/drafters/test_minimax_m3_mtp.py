"""MiniMax-M3's MTP modules: sparse layers numbered from 0, whatever the target's are called.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_draft_case import draft_rows

from kvplan.errors import KvplanError

SPARSE = {
    "sparse_index_dim": 128,
    "sparse_num_index_heads": 4,
    "sparse_topk_blocks": 16,
    "sparse_block_size": 128,
    "sparse_attention_freq": [0, 1],
}
TEXT: dict[str, Any] = {"num_hidden_layers": 2, "sparse_attention_config": SPARSE}
CONFIG: dict[str, Any] = {
    "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
    "model_type": "minimax_m3_vl",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": {
        "hidden_size": 1280,
        "num_attention_heads": 16,
        "num_hidden_layers": 2,
        "intermediate_size": 5120,
        "patch_size": 14,
        "layer_norm_eps": 1e-05,
        "num_channels": 3,
        "img_token_compression_config": {"spatial_merge_size": 2, "temporal_patch_size": 2},
    },
}
MTP = {"method": "mtp", "num_speculative_tokens": 2}


def module(index: int) -> list[tuple[str, str, int, int]]:
    name = f"model.layers.{index}.self_attn.attn"
    return [(f"{name}.index_cache", "mla", 128, 32768), (name, "full_attention", 128, 65536)]


def test_one_module_by_default(tmp_path: Path) -> None:
    assert draft_rows(tmp_path, CONFIG, "H200", speculative=MTP, tensor_parallel_size=4) == module(0)


def test_two_modules(tmp_path: Path) -> None:
    config = {**CONFIG, "text_config": {**TEXT, "num_mtp_modules": 2}}
    assert draft_rows(tmp_path, config, "B200", speculative=MTP, tensor_parallel_size=4) == module(0) + module(1)


def test_a_checkpoint_of_its_own_drafts_too(tmp_path: Path) -> None:
    drafter = {**TEXT, "architectures": ["MiniMaxM3MTP"], "model_type": "minimax_m3_mtp", "dtype": "bfloat16"}
    found = draft_rows(tmp_path, CONFIG, "B200", drafter, speculative=MTP, tensor_parallel_size=4)
    assert found == module(0)


def test_modules_need_the_sizes_of_sparse_attention(tmp_path: Path) -> None:
    config = {**CONFIG, "text_config": {**TEXT, "sparse_attention_config": {}}}
    with pytest.raises(KvplanError, match="sparse_num_index_heads"):
        draft_rows(tmp_path, config, "H200", speculative=MTP, tensor_parallel_size=4)
