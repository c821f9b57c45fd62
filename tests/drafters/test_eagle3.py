"""EAGLE3 and P-EAGLE: layers of Llama and Qwen3, whose own layer_types decide their windows.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import LLAMA_DRAFTER, drafted, planned

from kvplan.errors import Refused

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
QWEN = "Qwen/Qwen3-8B"
QWEN_LAYER: dict[str, Any] = {
    "architectures": ["Eagle3Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "vocab_size": 151936,
    "layer_types": ["full_attention", "sliding_attention"],
    "use_sliding_window": True,
    "sliding_window": 2048,
}
SPECULATORS = {
    "speculators_model_type": "peagle",
    "speculators_config": {
        "algorithm": "peagle",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
        "verifier": {"name_or_path": QWEN},
    },
    "transformer_layer_config": {
        **LLAMA_DRAFTER,
        "head_dim": 128,
        "vocab_size": 151936,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "intermediate_size": 12288,
    },
    "draft_vocab_size": 32000,
    "mask_token_id": 151669,
}


def test_a_backend_of_the_drafters_own_is_its_alone(tmp_path: Path) -> None:
    own = {"attention_backend": "TRITON_ATTN"}
    assert drafted(tmp_path, LLAMA, LLAMA_DRAFTER, "eagle3", 3, speculative=own) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 65536, None, "TRITON_ATTN")
    ]


def test_a_kv_dtype_of_the_drafters_own_halves_its_page(tmp_path: Path) -> None:
    own = {"kv_cache_dtype": "fp8"}
    assert drafted(tmp_path, LLAMA, LLAMA_DRAFTER, "eagle3", 3, gpu="B200", speculative=own) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 32768, None, "FLASHINFER")
    ]


def test_draft_tensor_parallel_size_does_not_change_the_heads_of_a_rank(tmp_path: Path) -> None:
    one = {"draft_tensor_parallel_size": 1}
    assert drafted(tmp_path, LLAMA, LLAMA_DRAFTER, "eagle3", 3, tensor_parallel_size=4, speculative=one) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 2, 128, 16, 16384, None, "FLASH_ATTN")
    ]


def test_qwen3_layers_slide_where_their_own_types_say(tmp_path: Path) -> None:
    assert drafted(tmp_path, QWEN, QWEN_LAYER, "eagle3", 3) == [
        ("full_attention", 1, "model.layers.36.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN"),
        ("sliding_window", 1, "model.layers.37.self_attn.attn", 8, 128, 16, 65536, 2048, "FLASH_ATTN"),
    ]


def test_parallel_drafting_takes_the_v1_runner(tmp_path: Path) -> None:
    result = planned(tmp_path, QWEN, SPECULATORS, "eagle3", 3, speculative={"parallel_drafting": True})
    assert not result.config.use_v2_model_runner
    assert [layer.name for layer in result.layers if layer.owner == "drafter"] == ["model.layers.36.self_attn.attn"]


def test_a_target_that_hides_its_inner_states_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Gemma3ForConditionalGeneration does not give a drafter"):
        drafted(tmp_path, "google/gemma-3-27b-it", {**LLAMA_DRAFTER, "hidden_size": 5376}, "eagle3", 3)


def test_a_target_that_sends_no_states_over_stages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="pipeline-parallel-size 2: Qwen3MoeForCausalLM does not support method eagle3"):
        drafted(
            tmp_path,
            "Qwen/Qwen3-30B-A3B",
            {**LLAMA_DRAFTER, "hidden_size": 2048},
            "eagle3",
            3,
            pipeline_parallel_size=2,
        )


def test_over_stages_the_layer_is_numbered_after_the_whole_target(tmp_path: Path) -> None:
    assert drafted(tmp_path, LLAMA, LLAMA_DRAFTER, "eagle3", 3, tensor_parallel_size=2, pipeline_parallel_size=2) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 4, 128, 16, 32768, None, "FLASH_ATTN")
    ]


def test_a_drafters_own_kv_scheme_is_refused_where_it_would_rule_the_run(tmp_path: Path) -> None:
    scheme = {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    with pytest.raises(Refused, match="quantization_config has a kv_cache_scheme"):
        drafted(tmp_path, LLAMA, {**LLAMA_DRAFTER, "quantization_config": scheme}, "eagle3", 3)
