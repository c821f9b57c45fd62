"""MiniMax-M3: dense layers, then sparse ones with an indexer's keys beside K and V, in blocks of 128 tokens.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_case import names, planned, rows

from kvplan.errors import KvplanError
from kvplan.spec import AttentionSpec

SPARSE: dict[str, Any] = {
    "use_sparse_attention": True,
    "sparse_index_dim": 128,
    "sparse_num_index_heads": 4,
    "sparse_topk_blocks": 16,
    "sparse_block_size": 128,
    "sparse_attention_freq": [0, 0, 1, 1],
}
TEXT: dict[str, Any] = {"num_hidden_layers": 4, "sparse_attention_config": SPARSE, "moe_layer_freq": [0, 0, 1, 1]}
VISION: dict[str, Any] = {
    "hidden_size": 1280,
    "num_attention_heads": 16,
    "num_hidden_layers": 2,
    "intermediate_size": 5120,
    "patch_size": 14,
    "layer_norm_eps": 1e-05,
    "num_channels": 3,
    "image_size": 2016,
    "img_token_compression_config": {"spatial_merge_size": 2, "temporal_patch_size": 2},
}
CONFIG: dict[str, Any] = {
    "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
    "model_type": "minimax_m3_vl",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": VISION,
}
P = "language_model.model.layers"


def sparse(**fields: Any) -> dict[str, Any]:
    """The config with other fields of its sparse attention."""
    return {**CONFIG, "text_config": {**TEXT, "sparse_attention_config": {**SPARSE, **fields}}}


def test_the_index_comes_before_the_layer_that_it_feeds(tmp_path: Path) -> None:
    assert names(tmp_path, CONFIG, "H200", tensor_parallel_size=4) == [
        f"{P}.0.self_attn.attn",
        f"{P}.1.self_attn.attn",
        f"{P}.2.self_attn.attn.index_cache",
        f"{P}.2.self_attn.attn",
        f"{P}.3.self_attn.attn.index_cache",
        f"{P}.3.self_attn.attn",
    ]


def test_keys_of_the_index_keep_bfloat16_under_an_fp8_cache(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200", tensor_parallel_size=4, kv_cache_dtype="fp8") == [
        ("full_attention", 4, f"{P}.0.self_attn.attn", 128, 32768),
        ("mla", 2, f"{P}.2.self_attn.attn.index_cache", 128, 32768),
    ]


def test_the_index_is_fp8_where_the_user_says_so(tmp_path: Path) -> None:
    options = {"tensor_parallel_size": 4, "attention_config": {"indexer_kv_dtype": "fp8"}}
    assert rows(tmp_path, CONFIG, "B200", **options) == [
        ("full_attention", 4, f"{P}.0.self_attn.attn", 128, 65536),
        ("mla", 2, f"{P}.2.self_attn.attn.index_cache", 128, 16384),
    ]
    with pytest.raises(KvplanError, match="indexer_kv_dtype 'nvfp4'"):
        planned(tmp_path, CONFIG, "B200", tensor_parallel_size=4, attention_config={"indexer_kv_dtype": "nvfp4"})


def test_nvfp4_packs_keys_and_values_on_datacenter_blackwell_only(tmp_path: Path) -> None:
    layers = planned(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="nvfp4").layers
    spec = layers[3].spec
    assert isinstance(spec, AttentionSpec)
    assert (spec.num_head_slots, spec.state_content_bytes, spec.page_size_bytes) == (2, 72, 18432)
    with pytest.raises(KvplanError, match=r"compute capability 10\.x"):
        planned(tmp_path, CONFIG, "H200", tensor_parallel_size=8, kv_cache_dtype="nvfp4")
    with pytest.raises(KvplanError, match="8 of 128 on B200"):
        planned(tmp_path, sparse(sparse_topk_blocks=8), "B200", tensor_parallel_size=8, kv_cache_dtype="nvfp4")


def test_heads_are_replicated_beyond_the_kv_heads(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200", tensor_parallel_size=16)[0][4] == 65536


@pytest.mark.parametrize("freq", [None, []])
def test_without_a_frequency_every_layer_is_dense(tmp_path: Path, freq: list[int] | None) -> None:
    found = rows(tmp_path, sparse(sparse_attention_freq=freq), "H200", tensor_parallel_size=4)
    assert [row[:2] for row in found] == [("full_attention", 4)]


def test_a_missing_field_of_the_vision_tower_is_named(tmp_path: Path) -> None:
    vision = {key: value for key, value in VISION.items() if key != "patch_size"}
    with pytest.raises(KvplanError, match="vision_config: patch_size"):
        planned(tmp_path, {**CONFIG, "vision_config": vision}, "H200", tensor_parallel_size=4)


def test_every_layer_needs_an_entry_of_moe_layer_freq(tmp_path: Path) -> None:
    text = {**TEXT, "moe_layer_freq": [0, 1, 1]}
    with pytest.raises(KvplanError, match="moe_layer_freq must have an entry for each of 4 layers"):
        planned(tmp_path, {**CONFIG, "text_config": text}, "H200", tensor_parallel_size=4)


def test_the_text_model_alone_has_shorter_names(tmp_path: Path) -> None:
    text = {**TEXT, "architectures": ["MiniMaxM3SparseForCausalLM"], "model_type": "minimax_m3_text"}
    found = names(tmp_path, {**text, "dtype": "bfloat16"}, "H200", tensor_parallel_size=4)
    assert found[2] == "model.layers.2.self_attn.attn.index_cache"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"sparse_num_index_heads": 8}, "sparse_num_index_heads"),
        ({"sparse_index_dim": None}, "sparse_index_dim"),
        ({"sparse_index_dim": 0}, "sparse_index_dim"),
        ({"sparse_topk_blocks": "16"}, "sparse_topk_blocks"),
        ({"sparse_block_size": 2**70}, "sparse_block_size"),
        ({"sparse_attention_freq": ["yes"]}, "sparse_attention_freq"),
    ],
)
def test_a_broken_field_is_named(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(KvplanError, match=named):
        planned(tmp_path, sparse(**fields), "H200", tensor_parallel_size=4)
