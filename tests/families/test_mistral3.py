"""Mistral 3 and LLaVA cache what their text model caches, under its own name.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused

MISTRAL3 = {
    "architectures": ["Mistral3ForConditionalGeneration"],
    "model_type": "mistral3",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "mistral",
        "hidden_size": 5120,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "sliding_window": None,
        "max_position_embeddings": 131072,
    },
}
PIXTRAL = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "mistral",
        "hidden_size": 5120,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "sliding_window": None,
        "max_position_embeddings": 1024000,
    },
    "vision_config": {"model_type": "pixtral"},
}
CONFIGS = (
    MISTRAL3,
    PIXTRAL,
)


def test_mistral_3(tmp_path: Path) -> None:
    assert rows(tmp_path, MISTRAL3, "H200") == [
        ("full_attention", 40, "language_model.model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_pixtral_in_llava_form(tmp_path: Path) -> None:
    assert rows(tmp_path, PIXTRAL, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8", max_model_len=32768) == [
        ("full_attention", 40, "language_model.model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]


def test_an_unknown_text_model_is_refused_by_name(tmp_path: Path) -> None:
    text = {**MISTRAL3["text_config"], "architectures": ["PersimmonForCausalLM"]}
    with pytest.raises(Refused, match="PersimmonForCausalLM"):
        rows(tmp_path, {**MISTRAL3, "text_config": text})
