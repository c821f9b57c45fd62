"""GLM-5.3-Flash: states, pooled indexer keys, the ring of keys that wait for their pool, and sparse latents.

Expected rows: what vLLM 0.33.0 plans for the same configs and options, and what a published server reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_case import names, planned, rows

from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.families.glm5_next import ring_tokens
from kvplan.pipeline import PlanRequest, plan
from kvplan.spec import MLA, AttentionSpec, StateSpec

TEXT: dict[str, Any] = {
    "model_type": "glm5_next_text",
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
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "indexed_attention"] * 2,
}
CONFIG: dict[str, Any] = {**TEXT, "architectures": ["Glm5NextForCausalLM"], "dtype": "bfloat16"}
P = "model.layers"


def changed(**fields: Any) -> dict[str, Any]:
    """The config with other fields; None takes one away."""
    return {key: value for key, value in {**CONFIG, **fields}.items() if value is not None}


@pytest.mark.parametrize(
    ("gpu", "options", "block", "kernel"),
    [
        ("H200", {}, 2176, 128),
        ("B300", {}, 4352, 256),
        ("B300", {"kv_cache_dtype": "bfloat16"}, 2176, 128),
    ],
)
def test_seventeen_kernel_pages_a_block_in_six_groups(
    gpu: str, options: dict[str, Any], block: int, kernel: int
) -> None:
    args = EngineArgs("zai-org/GLM-5.3-Flash", tensor_parallel_size=2, kv_cache_memory_bytes=10**11, **options)
    result = plan(PlanRequest(args, gpu=gpu, offline=True))
    assert (result.block_size, block // kernel, result.layout.name) == (block, 17, "BLHNC")
    packed = result.plans[result.selected]
    assert [group.blocks_per_request for group in packed.groups][-1] == 1
    assert len(packed.groups) == 6
    indexer = next(layer for layer in result.layers if layer.name.endswith("k_cache"))
    assert isinstance(indexer.spec, AttentionSpec)
    assert indexer.kernel_block_sizes == (128, 256)
    assert (indexer.spec.num_states, indexer.spec.block_stride_alignment_bytes) == (block // 4, kernel // 4 * 132)


def test_each_mla_layer_comes_after_its_indexer_and_ring(tmp_path: Path) -> None:
    assert names(tmp_path, CONFIG, "H200")[3:7] == [
        f"{P}.3.self_attn.indexer.k_cache",
        f"{P}.3.self_attn.indexer.tail_cache",
        f"{P}.3.self_attn.attn",
        f"{P}.4.self_attn",
    ]


def test_states_keep_float32_and_a_prefill_checkpoint(tmp_path: Path) -> None:
    spec = planned(tmp_path, CONFIG, "H200", tensor_parallel_size=2).layers[0].spec
    assert isinstance(spec, StateSpec)
    assert (spec.shapes, spec.dtypes) == (((3, 12288), (32, 128, 128)), ("bfloat16", "float32"))
    assert (spec.num_prefill_checkpoint_blocks, spec.prefill_checkpoint_alignment) == (1, 16)


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {"additional_flags": {"kda_prefill_backend": "triton"}}),
        ({"linear_head_dim": 64}, {}),
        ({}, {"dtype": "float16"}),
    ],
)
def test_without_flashkda_there_is_no_checkpoint(
    tmp_path: Path, fields: dict[str, Any], options: dict[str, Any]
) -> None:
    spec = planned(tmp_path, changed(**fields), "H200", tensor_parallel_size=2, **options).layers[0].spec
    assert isinstance(spec, StateSpec)
    assert (spec.num_prefill_checkpoint_blocks, spec.prefill_checkpoint_alignment) == (0, None)


def test_pages_of_the_four_caches(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200", tensor_parallel_size=2) == [
        ("mamba", 6, f"{P}.0.self_attn", 2176, 2228224),
        ("mla", 2, f"{P}.3.self_attn.indexer.k_cache", 2176, 71808),
        ("circular_buffer", 2, f"{P}.3.self_attn.indexer.tail_cache", 4, 2048),
        ("mla", 2, f"{P}.3.self_attn.attn", 2176, 2228224),
    ]


@pytest.mark.parametrize(
    ("pool", "drafted", "tokens"), [(4, 0, 4), (4, 1, 8), (4, 4, 8), (4, 5, 16), (4, 12, 16), (3, 7, 12), (8, 3, 16)]
)
def test_the_ring_holds_a_pool_and_every_drafted_token(pool: int, drafted: int, tokens: int) -> None:
    assert ring_tokens(pool, drafted) == tokens
    assert tokens >= pool + drafted


def test_the_top_k_buffer_reserves_the_incomplete_pool(tmp_path: Path) -> None:
    specs = [layer.spec for layer in planned(tmp_path, CONFIG, "H200").layers if layer.name.endswith(".attn")]
    assert {spec.topk_buffer_width for spec in specs if isinstance(spec, AttentionSpec) and spec.kind == MLA} == {2176}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"index_kpool": 1}, "index_kpool"),
        ({"index_kpool": 0}, "index_kpool"),
        ({"index_kpool_always_select_tail": False}, "index_kpool_always_select_tail"),
        ({"mla_use_nope": None}, "mla_use_nope"),
        ({"mhc": None}, "mhc"),
        ({"topk_method": None}, "topk_method"),
        ({"linear_num_heads": -1}, "linear_num_heads"),
        ({"linear_head_dim": "128"}, "linear_head_dim"),
        ({"layer_types": ["linear_attention"] * 7}, "layer_types"),
        ({"layer_types": ["indexed_attention"] * 8}, "layer_types"),
    ],
)
def test_a_broken_field_is_named(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(KvplanError, match=named):
        planned(tmp_path, changed(**fields), "H200")


def test_half_precision_recurrent_states_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="--mamba-ssm-cache-dtype float16"):
        planned(tmp_path, CONFIG, "H200", mamba_ssm_cache_dtype="float16")
