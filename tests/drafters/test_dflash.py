"""DFlash and its kin: windows from layer_types or use_swa, causal or not, a backend of their own.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import DFLASH, V1, Row, drafted, planned

from kvplan.errors import KvplanError, Refused

QWEN3 = "Qwen/Qwen3-8B"
QWEN36 = "Qwen/Qwen3.6-35B-A3B-FP8"


def full(backend: str) -> list[Row]:
    return [("full_attention", 5, "model.layers.36.self_attn.attn", 8, 128, 16, 65536, None, backend)]


def own(**keys: Any) -> dict[str, Any]:
    """The drafter with further keys in its dflash_config."""
    return {**DFLASH, "dflash_config": {**DFLASH["dflash_config"], **keys}}


def test_full_attention_layers_after_the_targets(tmp_path: Path) -> None:
    assert drafted(tmp_path, QWEN3, DFLASH, "dflash", 7) == full("FLASH_ATTN")


@pytest.mark.parametrize(("causal", "backend"), [(False, "FLASH_ATTN"), (True, "FLASHINFER")])
def test_only_a_causal_one_may_take_flashinfer(tmp_path: Path, causal: bool, backend: str) -> None:
    assert drafted(tmp_path, QWEN3, own(causal=causal), "dflash", 7, gpu="B200") == full(backend)


def test_use_swa_without_layer_types_takes_its_own_window(tmp_path: Path) -> None:
    config = own(use_swa=True, swa_window_size=512)
    del config["layer_types"]
    assert drafted(tmp_path, QWEN3, config, "dflash", 7, gpu="B200") == [
        ("sliding_window", 5, "model.layers.36.self_attn.attn", 8, 128, 16, 65536, 512, "FLASH_ATTN")
    ]


def test_use_swa_without_a_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="sliding_window must be an integer"):
        drafted(tmp_path, QWEN3, own(use_swa=True), "dflash", 7)


def test_a_speculators_config_of_two_kinds(tmp_path: Path) -> None:
    layer = {key: DFLASH[key] for key in DFLASH if key not in {"architectures", "dflash_config"}}
    layer |= {"layer_types": ["sliding_attention"] * 4 + ["full_attention"], "sliding_window": 2048}
    layer |= {"hidden_act": "silu", "rms_norm_eps": 1e-6, "intermediate_size": 12288}
    config = {
        "architectures": ["dflashSpeculator"],
        "speculators_model_type": "dflash",
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": "dflash",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"architectures": ["Qwen3ForCausalLM"], "name_or_path": QWEN3},
        },
        "draft_vocab_size": 32000,
        "mask_token_id": 151669,
        "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
        "block_size": 8,
        "torch_dtype": "bfloat16",
    }
    assert drafted(tmp_path, QWEN3, config, "dflash", 7) == [
        ("sliding_window", 4, "model.layers.36.self_attn.attn", 8, 128, 16, 65536, 2048, "FLASH_ATTN"),
        ("full_attention", 1, "model.layers.40.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN"),
    ]


def test_context_parallel_ranks_hold_all_its_tokens_in_groups_of_their_own(tmp_path: Path) -> None:
    parallel: dict[str, Any] = {"tensor_parallel_size": 16, "decode_context_parallel_size": 2}
    result = planned(tmp_path, QWEN3, DFLASH, "dflash", 7, **parallel)
    assert len(result.plans["main"].groups) == 9
    assert drafted(tmp_path, QWEN3, DFLASH, "dflash", 7, **parallel) == [
        ("full_attention", 5, "model.layers.36.self_attn.attn", 1, 128, 16, 8192, None, "FLASH_ATTN")
    ]


def test_the_targets_backend_and_ranks_of_its_own_do_not_count(tmp_path: Path) -> None:
    speculative = {"draft_tensor_parallel_size": 1}
    options = {"tensor_parallel_size": 4, "attention_backend": "FLASHINFER", "speculative": speculative}
    assert drafted(tmp_path, QWEN3, DFLASH, "dflash", 15, **options) == [
        ("full_attention", 5, "model.layers.36.self_attn.attn", 2, 128, 16, 16384, None, "FLASH_ATTN")
    ]


def test_the_block_of_a_hybrid_target(tmp_path: Path) -> None:
    drafter = "z-lab/Qwen3.6-35B-A3B-DFlash-preview"
    assert drafted(tmp_path, QWEN36, drafter, "dflash", 7, attention_backend="FLASHINFER") == [
        ("full_attention", 8, "model.layers.40.self_attn.attn", 4, 128, 1152, 2359296, None, "FLASH_ATTN")
    ]


def test_v1_needs_all_its_layers_in_one_group(tmp_path: Path) -> None:
    result = planned(tmp_path, "openai/gpt-oss-20b", "z-lab/gpt-oss-20b-DFlash", "dflash", 7, env=V1)
    reason = result.plans["main"].error
    assert reason is not None
    assert "needs all layers of the drafter in one KV cache group" in reason


def test_muse_glimmers_assistant_is_full_of_defaults(tmp_path: Path) -> None:
    config = {
        "architectures": ["MuseGlimmerAssistantModel"],
        "model_type": "muse_glimmer_assistant",
        "dtype": "bfloat16",
    }
    assert drafted(tmp_path, "meta-models/Muse-Glimmer-30B", config, "dflash", 15) == [
        ("sliding_window", 5, "model.layers.52.self_attn.attn", 8, 128, 16, 65536, 2048, "FLASH_ATTN")
    ]


def test_dspark_drafts_a_block_of_its_own_length(tmp_path: Path) -> None:
    config = {**DFLASH, "architectures": ["Qwen3DSparkModel"], "block_size": 7, "markov_rank": 256}
    config |= {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]}
    del config["dflash_config"]
    assert drafted(tmp_path, QWEN3, config, "dspark", None) == full("FLASH_ATTN")
    assert planned(tmp_path, QWEN3, config, "dspark", None).config.num_speculative_tokens == 7


def test_a_drafter_without_a_mask_token_is_refused(tmp_path: Path) -> None:
    config = {**DFLASH, "dflash_config": {"target_layer_ids": [1, 9, 17, 25, 33]}}
    with pytest.raises(Refused, match="mask_token_id"):
        drafted(tmp_path, QWEN3, config, "dflash", 7)
