"""DeepSeek-V4.1: windows everywhere, compressed latents and index keys at a few sources, a ring where one compresses.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_case import names, planned, rows

from kvplan.errors import KvplanError

TEXT = {
    "model_type": "deepseek_v41_text",
    "num_hidden_layers": 8,
    "hidden_size": 5120,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 1280,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "sliding_window": 128,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 512,
    "compress_ratios": [0, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [1, 4],
    "index_source_layer_ids": [1, 4, 6],
    "candidate_source_layer_id": 4,
    "candidate_topk_blocks": 2048,
    "candidate_block_size": 8,
    "num_nextn_predict_layers": 3,
    "max_position_embeddings": 1048576,
    "vocab_size": 129280,
    "hc_eps": 1e-6,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "moe_intermediate_size": 2304,
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 6,
    "rms_norm_eps": 1e-20,
    "rope_theta": 10000,
    "compress_rope_theta": 160000,
    "rope_scaling": {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 65536},
    "swiglu_limit": 10.0,
}
CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV41ForCausalLM"],
    "model_type": "deepseek_v41",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": {"num_hidden_layers": 32},
}
CONFIGS = (CONFIG,)

P = "language_model.model.layers"


def changed(**fields: Any) -> dict[str, Any]:
    """The config with other fields of its text model; None takes one away."""
    text = {key: value for key, value in {**TEXT, **fields}.items() if value is not None}
    return {**CONFIG, "text_config": text}


def test_nvfp4_latents_of_mega_attention(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200") == [
        ("sliding_window_mla", 8, f"{P}.0.attn.swa_cache", 32, 16896),
        ("mla", 1, f"{P}.1.attn", 128, 18432),
        ("mla", 1, f"{P}.1.attn.indexer.k_cache", 128, 8704),
        ("circular_buffer", 1, f"{P}.1.attn.compressor.state_cache", 8, 32768),
        ("mla", 1, f"{P}.4.attn", 128, 36864),
        ("mla", 1, f"{P}.4.attn.indexer.k_cache", 128, 16896),
    ]


def test_older_records_on_hopper(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200", kv_cache_dtype="fp8") == [
        ("sliding_window_mla", 8, f"{P}.0.attn.swa_cache", 32, 19008),
        ("mla", 1, f"{P}.1.attn", 64, 19008),
        ("mla", 1, f"{P}.1.attn.indexer.k_cache", 64, 4608),
        ("circular_buffer", 1, f"{P}.1.attn.compressor.state_cache", 8, 32768),
        ("mla", 1, f"{P}.4.attn", 64, 37440),
        ("mla", 1, f"{P}.4.attn.indexer.k_cache", 64, 8640),
    ]


@pytest.mark.parametrize(
    ("dtype", "window", "compressed"), [("fp8", 16384, 32768), ("bfloat16", 32768, 65536)], ids=["fp8", "bf16"]
)
def test_plain_latents_of_flashinfer(tmp_path: Path, dtype: str, window: int, compressed: int) -> None:
    options = {"attention_backend": "FLASHINFER_MLA_SPARSE_DSV41", "kv_cache_dtype": dtype}
    assert rows(tmp_path, CONFIG, "B200", **options)[:3] == [
        ("sliding_window_mla", 8, f"{P}.0.attn.swa_cache", 32, window),
        ("mla", 1, f"{P}.1.attn", 128, compressed),
        ("mla", 1, f"{P}.1.attn.indexer.k_cache", 128, 8704),
    ]


def test_the_block_stride_holds_whole_rows_of_both_records(tmp_path: Path) -> None:
    """Rows of 528 bytes in the windows and of 288 in the compressed latents: strides are multiples of 3168."""
    result = planned(tmp_path, CONFIG, "B200", kv_cache_memory_bytes=100 * 2**30)
    plan = result.plans[result.selected]
    assert (result.layout.name, plan.bytes_per_block, plan.num_blocks) == ("BLHNC", 82368, 1303590)
    assert 82368 == 26 * 3168
    assert (len(plan.groups), plan.blocks_per_request, plan.kv_cache_size_tokens) == (10, 16425, 83221503)


def test_a_source_that_compresses_nothing_has_no_ring(tmp_path: Path) -> None:
    assert [name for name in names(tmp_path, CONFIG, "B200") if ".4." in name] == [
        f"{P}.4.attn",
        f"{P}.4.attn.indexer.k_cache",
        f"{P}.4.attn.swa_cache",
    ]


def test_readers_must_share_the_stage_of_their_source(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="another pipeline stage"):
        planned(tmp_path, CONFIG, "B200", pipeline_parallel_size=2, env={"VLLM_PP_LAYER_PARTITION": "2,6"})
    stages = planned(tmp_path, CONFIG, "B200", pipeline_parallel_size=2, env={"VLLM_PP_LAYER_PARTITION": "4,4"})
    assert {layer.name: layer.stage for layer in stages.layers}[f"{P}.4.attn"] == 1


def test_a_stage_that_runs_no_layer_of_a_group_keeps_vllm_from_starting(tmp_path: Path) -> None:
    """Its second stage gets tensors for the ring of layer 1, and finds no group that holds that name."""
    result = planned(
        tmp_path,
        CONFIG,
        "B200",
        kv_cache_memory_bytes=100 * 2**30,
        pipeline_parallel_size=2,
        env={"VLLM_PP_LAYER_PARTITION": "4,4"},
    )
    plan = result.plans[result.selected]
    assert "runs no layer of KV cache group" in (plan.error or "")
    assert plan.num_blocks


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kv_source_layer_ids": []}, "without a source"),
        ({"kv_source_layer_ids": [0, 4]}, "nothing to compress"),
        ({"kv_source_layer_ids": [2, 4]}, "up to layer 1"),
        ({"index_source_layer_ids": [4]}, "up to layer 1"),
        ({"index_source_layer_ids": [1, 4, 5], "kv_source_layer_ids": [1, 3], "compress_ratios": [0] + [2] * 7}, "own"),
        ({"compress_ratios": [0, 4, 2, 2, 1, 1, 1, 1]}, "0, 1 or 2"),
        ({"head_dim": 256}, "must be 512"),
        ({"sliding_window": None}, "sliding_window is missing"),
        ({"hc_mult": None}, "hc_mult is missing"),
        ({"compress_rope_theta": None}, "compress_rope_theta is missing"),
        ({"engram_layer_ids": [1]}, "engram_compressed_vocab_size is missing"),
    ],
)
def test_a_layer_without_what_it_reads_is_refused(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(KvplanError, match=says):
        planned(tmp_path, changed(**fields), "B200")


@pytest.mark.parametrize(
    ("gpu", "options"),
    [
        ("H200", {"kv_cache_dtype": "bfloat16"}),
        ("H200", {"kv_cache_dtype": "nvfp4_ds_mla"}),
        ("H200", {"attention_backend": "FLASHMLA_MEGA_ATTN_DSV41"}),
        ("B200", {"kv_cache_dtype": "fp8_ds_mla", "attention_backend": "FLASHINFER_MLA_SPARSE_DSV41"}),
        ("B200", {"attention_backend": "FLASHINFER_MLA_SPARSE"}),
        ("B200", {"attention_config": {"indexer_sparse_logits": True}}),
        ("B200", {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}}),
        ("A100 80GB", {}),
    ],
)
def test_what_the_kernels_do_not_take_is_refused(tmp_path: Path, gpu: str, options: dict[str, Any]) -> None:
    with pytest.raises(KvplanError, match=r"\.$"):
        planned(tmp_path, CONFIG, gpu, **options)
