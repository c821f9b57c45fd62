"""Gemma 3n: the last layers read an earlier layer's cache and have none of their own.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import planned, rows

from kvplan.errors import Refused

CONFIG = {
    "architectures": ["Gemma3nForConditionalGeneration"],
    "model_type": "gemma3n",
    "dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3n_text",
        "hidden_size": 2048,
        "intermediate_size": 16384,
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "num_kv_shared_layers": 15,
        "head_dim": 256,
        "sliding_window": 512,
        "max_position_embeddings": 32768,
    },
}
CONFIGS = (CONFIG,)


def test_fifteen_of_thirty_five_layers_cache_nothing(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("sliding_window", 16, "language_model.model.layers.0.self_attn.attn", 2, 256, 16, 32768, 512),
        ("full_attention", 4, "language_model.model.layers.4.self_attn.attn", 2, 256, 16, 32768, None),
    ]


def test_one_kv_head_is_replicated(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=4) == [
        ("sliding_window", 16, "language_model.model.layers.0.self_attn.attn", 1, 256, 16, 16384, 512),
        ("full_attention", 4, "language_model.model.layers.4.self_attn.attn", 1, 256, 16, 16384, None),
    ]


def test_a_shared_layer_reads_the_last_full_or_sliding_layer_before_it(tmp_path: Path) -> None:
    from kvplan.families import find
    from kvplan.sides import target_model

    model = target_model(planned(tmp_path, CONFIG).config)
    layers = find(model.architecture).layers(model)
    targets = {layer.kv_sharing_target for layer in layers if layer.kv_sharing_target}
    assert targets == {
        "language_model.model.layers.18.self_attn.attn",
        "language_model.model.layers.19.self_attn.attn",
    }


def test_pipeline_parallel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--pipeline-parallel-size"):
        rows(tmp_path, CONFIG, pipeline_parallel_size=2)


def test_sharing_that_leaves_no_layer_to_read_is_refused(tmp_path: Path) -> None:
    text = {**CONFIG["text_config"], "num_kv_shared_layers": 34}
    with pytest.raises(Refused, match="num_kv_shared_layers 34"):
        rows(tmp_path, {**CONFIG, "text_config": text})
