"""Qwen4's MTP modules: indexed attention, numbered after the target's layers.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparse_draft_case import draft_rows

TEXT: dict[str, Any] = {
    "model_type": "qwen4_exp_text",
    "num_hidden_layers": 8,
    "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
    "ple_layer_ids": [2],
    "indexer_n_heads": 16,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
    "output_gate_type": "silu",
    "eos_token_id": 248044,
    "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 2,
}
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen4ExpForConditionalGeneration"],
    "model_type": "qwen4_exp",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": {"deepstack_visual_indexes": []},
}
MTP = {"method": "mtp", "num_speculative_tokens": 2}
OWN = {"kv_cache_dtype": "auto"}


def module(index: int, ring: int) -> list[tuple[str, str, int, int]]:
    """The caches of one module; ``ring``: page bytes of its ring of 8 raw keys."""
    return [
        (f"mtp.layers.{index}.self_attn.indexer.raw_key_cache", "circular_buffer", 8, ring),
        (f"mtp.layers.{index}.self_attn.indexer.compressed_key_cache", "mla", 1088, 69632),
        (f"mtp.layers.{index}.self_attn.attn", "full_attention", 1088, 2228224),
    ]


def test_each_module_has_an_index_of_its_own(tmp_path: Path) -> None:
    assert draft_rows(tmp_path, CONFIG, "B200", speculative=MTP) == module(8, 2240) + module(9, 2240)


def test_a_text_model_keeps_no_positions_in_the_ring(tmp_path: Path) -> None:
    text = {**TEXT, "architectures": ["Qwen4ExpForCausalLM"], "dtype": "bfloat16"}
    assert draft_rows(tmp_path, text, "B200", speculative=MTP) == module(8, 2048) + module(9, 2048)


def test_modules_keep_positions_where_the_target_takes_no_images(tmp_path: Path) -> None:
    found = draft_rows(tmp_path, CONFIG, "B200", speculative=MTP, language_model_only=True)
    assert found == module(8, 2240) + module(9, 2240)


def test_a_dtype_of_its_own_leaves_its_index_at_the_block_before_alignment(tmp_path: Path) -> None:
    raw, keys, full = draft_rows(
        tmp_path, {**CONFIG, "text_config": {**TEXT, "mtp_num_hidden_layers": 1}}, "B200", speculative=MTP | OWN
    )
    assert keys == ("mtp.layers.8.self_attn.indexer.compressed_key_cache", "mla", 16, 1024)
    assert (raw[2], full[2]) == (8, 1088)
