"""Decoders with the same plain attention in every layer: which fields give its heads, and what is refused.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import Row, rows

from kvplan.errors import KvplanError


def config(architecture: str, model_type: str, **fields: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, "dtype": "bfloat16", **fields}


HEADS = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
WHOLE = HEADS | {"max_position_embeddings": 8192, "vocab_size": 32000, "intermediate_size": 8192}

OLMOE = config("OlmoeForCausalLM", "olmoe", num_hidden_layers=16)
STABLELM = config("StableLmForCausalLM", "stablelm", **WHOLE)
MINICPM = config("MiniCPMForCausalLM", "minicpm", **WHOLE)
NEMOTRON = config("NemotronForCausalLM", "nemotron", **WHOLE, head_dim=64)
PARAM = config("Param2MoEForCausalLM", "param2moe", **WHOLE, head_dim=64)
MINICPM3 = config("MiniCPM3ForCausalLM", "minicpm3", num_hidden_layers=20)
DBRX = config("DbrxForCausalLM", "dbrx", d_model=6144, n_heads=48, n_layers=4, attn_config={"kv_n_heads": 8})
DBRX["attn_config"]["rope_theta"] = 500000
STEP3 = config("Step3TextForCausalLM", "step3_text", num_hidden_layers=4, moe_layers_enum="1,2,3")
CHATGLM = config(
    "ChatGLMModel",
    "chatglm",
    num_layers=40,
    multi_query_attention=True,
    multi_query_group_num=2,
    seq_length=8192,
    original_rope=True,
    tie_word_embeddings=False,
)
BIGCODE = config("GPTBigCodeForCausalLM", "gpt_bigcode", n_layer=4, n_head=48, n_embd=6144)
CWM = config("CwmForCausalLM", "cwm", num_hidden_layers=8)
GPTJ = config("GPTJForCausalLM", "gptj", n_layer=4)
EXAONE = config(
    "ExaoneForCausalLM",
    "exaone",
    hidden_size=4096,
    num_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=32768,
    vocab_size=102400,
)
CONFIGS = (EXAONE, OLMOE, STABLELM, MINICPM, NEMOTRON, PARAM, MINICPM3, DBRX, STEP3, CHATGLM, BIGCODE, CWM, GPTJ)


def full(count: int, first: str, heads: int, size: int, page: int) -> list[Row]:
    return [("full_attention", count, first, heads, size, 16, page, None)]


ATTN = "model.layers.0.self_attn.attn"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (EXAONE, full(32, "model.h.0.attn.attention.attn", 8, 128, 65536)),
        (OLMOE, full(16, ATTN, 16, 128, 131072)),
        (STABLELM, full(32, ATTN, 8, 128, 65536)),
        (MINICPM, full(32, ATTN, 8, 128, 65536)),
        (NEMOTRON, full(32, ATTN, 8, 64, 32768)),
        (PARAM, full(32, ATTN, 8, 64, 32768)),
        (MINICPM3, full(20, ATTN, 40, 96, 245760)),
        (DBRX, full(4, "transformer.blocks.0.norm_attn_norm.attn.attn", 8, 128, 65536)),
        (STEP3, full(4, ".layers.0.self_attn.attn", 1, 256, 16384)),
        (CHATGLM, full(40, "transformer.encoder.layers.0.self_attention.attn", 2, 128, 16384)),
        (BIGCODE, full(4, "model.h.0.attn.attn", 1, 128, 8192)),
        (GPTJ, full(4, "transformer.h.0.attn.attn", 16, 256, 262144)),
    ],
    ids=lambda value: value["architectures"][0] if isinstance(value, dict) else "",
)
def test_heads_come_from_the_fields_that_the_class_reads(
    tmp_path: Path, model: dict[str, Any], expected: list[Row]
) -> None:
    assert rows(tmp_path, model) == expected


def test_the_first_layer_of_four_is_full_in_cwm(tmp_path: Path) -> None:
    assert rows(tmp_path, CWM) == [
        ("full_attention", 2, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None),
        ("sliding_window", 6, "model.layers.1.self_attn.attn", 8, 128, 16, 65536, 8192),
    ]


@pytest.mark.parametrize(
    ("model", "named", "options"),
    [
        (PARAM, "num_key_value_heads", {"tensor_parallel_size": 16}),
        (STABLELM | {"hidden_size": 4100}, "hidden_size", {}),
        (STEP3 | {"moe_layers_enum": [1, 2]}, "moe_layers_enum", {}),
        (STEP3, "tie_word_embeddings", {"pipeline_parallel_size": 2}),
        (config("DeepseekForCausalLM", "deepseek_v2", **WHOLE), "model_type", {}),
        (DBRX | {"attn_config": None}, "attn_config", {}),
    ],
)
def test_what_the_class_does_not_take_is_refused(
    tmp_path: Path, model: dict[str, Any], named: str, options: dict[str, Any]
) -> None:
    with pytest.raises(KvplanError, match=named):
        rows(tmp_path, model, **options)


def test_chatglm_needs_the_fields_that_its_config_class_lacks(tmp_path: Path) -> None:
    for key in ("original_rope", "tie_word_embeddings"):
        with pytest.raises(KvplanError, match=key):
            rows(tmp_path, {name: value for name, value in CHATGLM.items() if name != key})
