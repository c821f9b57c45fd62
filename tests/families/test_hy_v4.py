"""Hy4: sparse latent attention with sinks; the layers that own an indexer cache its keys too.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_case import names, planned, rows

from kvplan.errors import KvplanError

CONFIG: dict[str, Any] = {
    "architectures": ["HYV4ForCausalLM"],
    "model_type": "hy_v4",
    "dtype": "bfloat16",
    "num_hidden_layers": 6,
    "layer_types": ["indexed_attention"] * 6,
    "indexer_types": ["full", "full", "shared", "shared", "shared", "full"],
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
P = "model.layers"


def changed(**fields: Any) -> dict[str, Any]:
    """The config with other fields; None takes one away."""
    return {key: value for key, value in {**CONFIG, **fields}.items() if value is not None}


def test_layers_that_lead_cache_their_indexer_first(tmp_path: Path) -> None:
    leads = [f"{P}.{i}.self_attn.indexer.k_cache" for i in (0, 1, 5)]
    attention = [f"{P}.{i}.self_attn.attn" for i in range(6)]
    assert names(tmp_path, CONFIG, "H200") == [
        leads[0],
        attention[0],
        leads[1],
        *attention[1:5],
        leads[2],
        attention[5],
    ]


def test_indexer_keys_and_latents(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("mla", 3, f"{P}.0.self_attn.indexer.k_cache", 64, 8448),
        ("mla", 6, f"{P}.0.self_attn.attn", 64, 73728),
    ]


def test_sinks_pack_an_fp8_cache_on_blackwell_where_the_selected_backend_has_none(tmp_path: Path) -> None:
    options = {"kv_cache_dtype": "fp8"}
    with_sinks = planned(tmp_path, CONFIG, "B200", **options).layers[1]
    assert (with_sinks.backend, with_sinks.spec.page_size_bytes) == ("FLASHMLA_SPARSE", 41984)
    without = planned(tmp_path, changed(learnable_sink=False), "B200", **options).layers[1]
    assert (without.backend, without.spec.page_size_bytes) == ("FLASHINFER_MLA_SPARSE", 36864)


def test_without_layer_types_every_layer_is_dense(tmp_path: Path) -> None:
    assert rows(tmp_path, changed(layer_types=None), "H200") == [
        ("mla", 6, f"{P}.0.self_attn.attn", 16, 18432),
    ]


def test_one_layer_in_four_owns_an_indexer_by_default(tmp_path: Path) -> None:
    found = names(tmp_path, changed(indexer_types=None), "H200")
    assert [name for name in found if "indexer" in name] == [f"{P}.{i}.self_attn.indexer.k_cache" for i in (0, 1, 5)]


def test_a_skipped_layer_stays_unquantised(tmp_path: Path) -> None:
    options = {"kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ("0",)}
    assert rows(tmp_path, CONFIG, "H200", **options) == [
        ("mla", 3, f"{P}.0.self_attn.indexer.k_cache", 128, 16896),
        ("mla", 1, f"{P}.0.self_attn.attn", 128, 147456),
        ("mla", 5, f"{P}.1.self_attn.attn", 128, 83968),
    ]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"indexer_types": ["full"] * 5}, "indexer_types"),
        ({"indexer_types": ["full"] * 5 + ["half"]}, "indexer_types"),
        ({"gating_type": "rowwise"}, "gating_type"),
        ({"q_lora_rank": "1536"}, "q_lora_rank"),
        ({"index_topk": 0}, "index_topk"),
        ({"index_head_dim": -128}, "index_head_dim"),
        ({"kv_lora_rank": 2**70}, "kv_lora_rank"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
    ],
)
def test_a_broken_field_is_named(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(KvplanError, match=named):
        planned(tmp_path, {**CONFIG, **fields}, "H200")


def test_dense_and_sparse_layers_do_not_share_a_packed_cache(tmp_path: Path) -> None:
    mixed = changed(layer_types=["full_attention"] * 3 + ["indexed_attention"] * 3)
    assert rows(tmp_path, mixed, "B200")[0][0] == "mla"
    with pytest.raises(KvplanError, match="layer_types mixes sparse and dense layers"):
        planned(tmp_path, mixed, "B200", kv_cache_dtype="fp8")


def test_decode_context_parallelism_needs_a_quantised_cache(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="FLASHMLA_SPARSE does not support --decode-context-parallel-size 2"):
        planned(tmp_path, CONFIG, "H200", tensor_parallel_size=2, decode_context_parallel_size=2)
