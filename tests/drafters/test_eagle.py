"""EAGLE: layers of Llama, Mistral and MiniCPM after the target's, on the target's ranks, with its window.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drafter_case import LLAMA_DRAFTER, V1, drafted

from kvplan.errors import Refused

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MISTRAL = "mistralai/Mistral-7B-Instruct-v0.3"
MISTRAL_DRAFTER = {
    **LLAMA_DRAFTER,
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "vocab_size": 32768,
    "max_position_embeddings": 32768,
}
WINDOWED = {**MISTRAL_DRAFTER, "num_hidden_layers": 32, "intermediate_size": 14336, "sliding_window": 4096}


def test_the_layer_is_numbered_after_the_targets(tmp_path: Path) -> None:
    assert drafted(tmp_path, LLAMA, LLAMA_DRAFTER, "eagle", 3) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN")
    ]


def test_a_mistral_drafter_is_named_by_its_own_class(tmp_path: Path) -> None:
    assert drafted(tmp_path, MISTRAL, MISTRAL_DRAFTER, "eagle", 3) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN")
    ]


def test_a_layer_without_a_window_takes_the_targets(tmp_path: Path) -> None:
    assert drafted(tmp_path, WINDOWED, MISTRAL_DRAFTER, "eagle", 3) == [
        ("sliding_window", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 65536, 4096, "FLASH_ATTN")
    ]


def test_minicpm_names_its_layers_apart(tmp_path: Path) -> None:
    config = {**LLAMA_DRAFTER, "architectures": ["MiniCPMForCausalLM"], "scale_depth": 1.4}
    assert drafted(tmp_path, LLAMA, config, "eagle", 3) == [
        ("full_attention", 1, "model.eagle_layers.32.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN")
    ]


def test_the_v1_runner_never_takes_the_targets_backend(tmp_path: Path) -> None:
    assert drafted(tmp_path, LLAMA, LLAMA_DRAFTER, "eagle", 3, attention_backend="FLASHINFER", env=V1) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN")
    ]


def test_pipeline_stages_give_the_layer_a_name_that_the_target_has(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"model\.layers\.16\.self_attn\.attn, as one of the target's"):
        drafted(tmp_path, LLAMA, LLAMA_DRAFTER, "eagle", 3, pipeline_parallel_size=2)


def test_layer_types_are_looked_up_beyond_their_end(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="layer_types is set"):
        drafted(tmp_path, LLAMA, {**LLAMA_DRAFTER, "layer_types": ["full_attention"]}, "eagle", 3)


def test_the_drafter_must_read_states_of_the_targets_width(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="width 2048, and the target's have 4096"):
        drafted(tmp_path, LLAMA, {**LLAMA_DRAFTER, "hidden_size": 2048}, "eagle", 3)
