"""EAGLE of Cohere: layer kinds by layer_types, with a window of one token more than the config's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drafter_case import V1, changed, drafted, planned

from kvplan.errors import KvplanError

COMMAND_A = "CohereLabs/c4ai-command-a-03-2025"
KINDS = ["sliding_attention", "full_attention"]


def test_the_window_is_one_token_more(tmp_path: Path) -> None:
    config = changed(COMMAND_A, architectures=["EagleCohereForCausalLM"], num_hidden_layers=2, layer_types=KINDS)
    assert drafted(tmp_path, COMMAND_A, config, "eagle", 3, tensor_parallel_size=4) == [
        ("sliding_window", 1, "model.layers.64.self_attn.attn", 2, 128, 16, 16384, 4097, "FLASH_ATTN"),
        ("full_attention", 1, "model.layers.65.self_attn.attn", 2, 128, 16, 16384, None, "FLASH_ATTN"),
    ]


def test_the_drafters_own_kinds_and_window_count(tmp_path: Path) -> None:
    own = {"num_hidden_layers": 2, "layer_types": KINDS[::-1], "sliding_window": 1024}
    config = changed(COMMAND_A, architectures=["CohereForCausalLM"], **own)
    assert drafted(tmp_path, COMMAND_A, config, "eagle", 3, gpu="B200", tensor_parallel_size=8) == [
        ("full_attention", 1, "model.layers.64.self_attn.attn", 1, 128, 16, 8192, None, "FLASHINFER"),
        ("sliding_window", 1, "model.layers.65.self_attn.attn", 1, 128, 16, 8192, 1025, "FLASHINFER"),
    ]


def test_a_drafter_of_two_kinds_does_not_run_on_v1(tmp_path: Path) -> None:
    config = changed(COMMAND_A, architectures=["CohereForCausalLM"], num_hidden_layers=2, layer_types=KINDS)
    result = planned(tmp_path, COMMAND_A, config, "eagle", 3, tensor_parallel_size=8, env=V1)
    reason = result.plans["main"].error
    assert reason is not None
    assert "needs all layers of the drafter in one KV cache group" in reason


def test_cohere_1_has_no_layer_types(tmp_path: Path) -> None:
    config = changed("CohereLabs/aya-23-8B", architectures=["CohereForCausalLM"], num_hidden_layers=1)
    with pytest.raises(KvplanError, match="layer_types"):
        drafted(tmp_path, "CohereLabs/aya-23-8B", config, "eagle", 3)
