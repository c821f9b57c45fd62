"""Hybrid models whose fields decide what they cache, or whether vLLM 0.33.0 can build them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import planned

from kvplan.errors import KvplanError

LFM2: dict[str, Any] = {
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 2,
    "layer_types": ["conv", "full_attention"],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "conv_L_cache": 3,
    "conv_dim": 2048,
    "block_dim": 2048,
}
ZAMBA2: dict[str, Any] = {
    "architectures": ["Zamba2ForCausalLM"],
    "model_type": "zamba2",
    "dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 2,
    "layers_block_type": ["mamba", "hybrid"],
    "num_attention_heads": 32,
    "attention_head_dim": 128,
    "num_mem_blocks": 1,
    "n_mamba_heads": 64,
}


@pytest.mark.parametrize("field", ["block_dim", "conv_dim"])
def test_lfm2_needs_the_fields_that_its_config_class_lacks(tmp_path: Path, field: str) -> None:
    assert planned(tmp_path, LFM2).plans["main"].groups
    with pytest.raises(KvplanError, match=f"{field} is missing"):
        planned(tmp_path, {key: value for key, value in LFM2.items() if key != field})


def test_zamba2_attends_with_heads_that_fill_its_width(tmp_path: Path) -> None:
    assert planned(tmp_path, ZAMBA2).plans["main"].groups
    with pytest.raises(KvplanError, match="attention_hidden_size must be 16 heads x 128, got 4096"):
        planned(tmp_path, ZAMBA2 | {"num_attention_heads": 16, "attention_hidden_size": 4096})


def test_nemotron_hs_window_is_every_attention_layers(tmp_path: Path) -> None:
    config = {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "dtype": "bfloat16",
        "layers_block_type": ["linear_attention", "full_attention", "mlp"],
        "num_hidden_layers": 3,
        "sliding_window": 512,
    }
    assert [layer.spec.kind for layer in planned(tmp_path, config).layers] == ["mamba", "sliding_window"]
    assert [layer.spec.kind for layer in planned(tmp_path, config | {"sliding_window": None}).layers] == [
        "mamba",
        "full_attention",
    ]


def test_states_of_a_model_that_the_outer_layer_types_call_plain_attention_have_no_block(tmp_path: Path) -> None:
    """`ModelConfig.is_hybrid` reads the whole config's layer_types; `MambaBase.get_kv_cache_spec` asserts a block."""
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "dtype": "bfloat16"}
    assert planned(tmp_path, config).selected == "main"
    with pytest.raises(KvplanError, match="does not count as a hybrid model"):
        planned(tmp_path, {**config, "layer_types": ["full_attention"] * 32})


def test_a_null_output_gate_is_neither_on_nor_off(tmp_path: Path) -> None:
    """The engine adds it to 1: "unsupported operand type(s) for +: 'int' and 'NoneType'"."""
    config = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "bfloat16"}
    assert planned(tmp_path, {**config, "attn_output_gate": False}).selected == "main"
    with pytest.raises(KvplanError, match="attn_output_gate is null"):
        planned(tmp_path, {**config, "attn_output_gate": None})
