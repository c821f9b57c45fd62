"""DeepSeek-V4: windows of latents, compressed latents, their compressors' states and the indexer's keys.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sparse_case import names, planned, rows

from kvplan.errors import KvplanError, Refused

CONFIG = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 6,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "o_lora_rank": 1024,
    "o_groups": 8,
    "qk_rope_head_dim": 64,
    "sliding_window": 128,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 512,
    "compress_ratios": [0, 4, 128, 4, 128, 0],
    "max_position_embeddings": 1048576,
    "num_nextn_predict_layers": 1,
}
CONFIGS = (CONFIG,)

FLASHINFER = "FLASHINFER_MLA_SPARSE_DSV4"


def test_packed_latents_of_flashmla(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B300") == [
        ("sliding_window_mla", 6, "model.layers.0.attn.swa_cache", 64, 37440),
        ("mla", 2, "model.layers.1.attn.indexer.k_cache", 256, 8640),
        ("sliding_window_mla", 2, "model.layers.1.attn.indexer.compressor.state_cache", 4, 8640),
        ("mla", 2, "model.layers.1.attn", 256, 37440),
        ("sliding_window_mla", 2, "model.layers.1.attn.compressor.state_cache", 4, 32832),
        ("mla", 2, "model.layers.2.attn", 256, 1728),
        ("sliding_window_mla", 2, "model.layers.2.attn.compressor.state_cache", 8, 32832),
    ]


def test_plain_fp8_latents_of_flashinfer(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", attention_backend=FLASHINFER, kv_cache_dtype="fp8") == [
        ("sliding_window_mla", 6, "model.layers.0.attn.swa_cache", 64, 32768),
        ("mla", 2, "model.layers.1.attn.indexer.k_cache", 256, 8704),
        ("sliding_window_mla", 2, "model.layers.1.attn.indexer.compressor.state_cache", 4, 8192),
        ("mla", 2, "model.layers.1.attn", 256, 32768),
        ("sliding_window_mla", 2, "model.layers.1.attn.compressor.state_cache", 4, 32768),
        ("mla", 2, "model.layers.2.attn", 256, 1024),
        ("sliding_window_mla", 2, "model.layers.2.attn.compressor.state_cache", 8, 32768),
    ]


def test_one_packed_block_holds_all_caches(tmp_path: Path) -> None:
    result = planned(tmp_path, CONFIG, "B300", kv_cache_memory_bytes=100 * 2**30)
    plan = result.plans[result.selected]
    assert result.layout.name == "BLHNC"
    assert (len(plan.groups), plan.bytes_per_block, plan.num_blocks) == (6, 95616, 1122972)
    assert (plan.blocks_per_request, plan.kv_cache_size_tokens) == (17949, 65603737)


def test_the_layers_come_in_the_engines_order(tmp_path: Path) -> None:
    assert names(tmp_path, CONFIG, "H200")[:9] == [
        "model.layers.0.attn.swa_cache",
        "model.layers.1.attn.indexer.k_cache",
        "model.layers.1.attn.indexer.compressor.state_cache",
        "model.layers.1.attn.swa_cache",
        "model.layers.1.attn",
        "model.layers.1.attn.compressor.state_cache",
        "model.layers.2.attn.swa_cache",
        "model.layers.2.attn",
        "model.layers.2.attn.compressor.state_cache",
    ]


def test_stages_that_run_layers_of_every_group_start(tmp_path: Path) -> None:
    pool = {"kv_cache_memory_bytes": 100 * 2**30, "pipeline_parallel_size": 2}
    result = planned(tmp_path, CONFIG, "H200", **pool)
    assert result.plans[result.selected].error is None
    result = planned(tmp_path, CONFIG, "H200", **pool, env={"VLLM_PP_LAYER_PARTITION": "2,4"})
    assert "runs no layer of KV cache group" in (result.plans[result.selected].error or "")


def test_layer_types_and_rates_say_the_same_as_ratios(tmp_path: Path) -> None:
    light, heavy, window = "compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention"
    types = [window, light, heavy, light, heavy, window]
    modern = {key: value for key, value in CONFIG.items() if key != "compress_ratios"} | {"layer_types": types}
    assert rows(tmp_path, modern, "H200") == rows(tmp_path, CONFIG, "H200")


def test_a_type_without_a_rate_keeps_its_window_alone(tmp_path: Path) -> None:
    one = {**CONFIG, "compress_rates": {"compressed_sparse_attention": 4}}
    assert [name for name in names(tmp_path, one, "H200") if ".2." in name] == ["model.layers.2.attn.swa_cache"]


def test_an_mxfp4_indexer_takes_68_bytes_a_key(tmp_path: Path) -> None:
    found = planned(tmp_path, CONFIG, "B200", attention_config={"indexer_kv_dtype": "mxfp4"}).layers
    assert next(layer.spec for layer in found if layer.name.endswith("k_cache")).unpadded_page_size_bytes == 64 * 68


@pytest.mark.parametrize(
    ("changes", "gpu", "options"),
    [
        ({"head_dim": 256}, "H200", {}),
        ({"index_head_dim": 64}, "H200", {}),
        ({"compress_rate_csa": 8}, "H200", {}),
        ({"o_groups": 3}, "H200", {"tensor_parallel_size": 2}),
        ({"num_attention_heads": 256}, "H200", {}),
        ({}, "A100 80GB", {}),
        ({}, "B200", {"kv_cache_dtype": "bfloat16"}),
        ({}, "B200", {"kv_cache_dtype": "fp8_ds_mla", "attention_backend": FLASHINFER}),
        ({}, "B200", {"attention_backend": "FLASHINFER_MLA_SPARSE"}),
        ({}, "H200", {"attention_config": {"indexer_kv_dtype": "mxfp4"}}),
    ],
)
def test_what_the_kernels_do_not_take_is_refused(
    tmp_path: Path, changes: dict[str, object], gpu: str, options: dict[str, object]
) -> None:
    with pytest.raises(KvplanError, match=r"\.$"):
        planned(tmp_path, {**CONFIG, **changes}, gpu, **options)


def test_a_vision_tower_without_its_fields_is_refused(tmp_path: Path) -> None:
    tower = {**CONFIG, "vision_n_layers": 2, "vision_max_n_token": 1024}
    with pytest.raises(KvplanError, match="vision_dim is missing"):
        planned(tmp_path, tower, "H200")
    with pytest.raises(Refused, match="FLASHINFER_MLA_SPARSE_DSV4"):
        planned(tmp_path, CONFIG, "H200", attention_backend="FLASHINFER_MLA_SPARSE_SM120")
