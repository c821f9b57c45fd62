"""The models that vLLM runs as Llama: Ministral 3, InternLM 3, ERNIE 4.5, Phi-3 and Phi-3-vision.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused

MINISTRAL3 = {
    "architectures": ["Ministral3ForCausalLM"],
    "model_type": "ministral3",
    "dtype": "bfloat16",
    "hidden_size": 12288,
    "num_hidden_layers": 88,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 262144,
}
INTERNLM3 = {
    "architectures": ["InternLM3ForCausalLM"],
    "model_type": "internlm3",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 10240,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-05,
    "rope_theta": 50000000,
    "tie_word_embeddings": False,
    "vocab_size": 128512,
}
ERNIE = {
    "architectures": ["Ernie4_5ForCausalLM"],
    "model_type": "ernie4_5",
    "dtype": "bfloat16",
    "hidden_size": 1024,
    "num_hidden_layers": 18,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}
PHI3 = {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "dtype": "bfloat16",
    "hidden_size": 3072,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "original_max_position_embeddings": 4096,
    "sliding_window": 2047,
}
PHI3V = {
    "architectures": ["Phi3VForCausalLM"],
    "model_type": "phi3_v",
    "dtype": "bfloat16",
    "hidden_act": "silu",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "img_processor": {"image_dim_out": 1024, "name": "clip_vision_model", "num_img_tokens": 144},
    "embd_layer": {
        "embedding_cls": "image",
        "hd_transform_order": "sub_glb",
        "projection_cls": "mlp",
        "use_hd_transform": True,
        "with_learnable_separator": True,
    },
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "sliding_window": 262144,
    "tie_word_embeddings": False,
    "vocab_size": 32064,
}
CONFIGS = (
    MINISTRAL3,
    INTERNLM3,
    ERNIE,
    PHI3,
    PHI3V,
)


def test_ministral_3(tmp_path: Path) -> None:
    assert rows(tmp_path, MINISTRAL3, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 88, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]


def test_internlm_3_replicates_its_two_kv_heads(tmp_path: Path) -> None:
    assert rows(tmp_path, INTERNLM3, "H200", tensor_parallel_size=4) == [
        ("full_attention", 48, "model.layers.0.self_attn.attn", 1, 128, 16, 8192, None)
    ]


def test_ernie_4_5(tmp_path: Path) -> None:
    assert rows(tmp_path, ERNIE, "H200") == [
        ("full_attention", 18, "model.layers.0.self_attn.attn", 2, 128, 16, 16384, None)
    ]


def test_the_window_of_phi_3_holds_in_every_layer(tmp_path: Path) -> None:
    assert rows(tmp_path, PHI3, "H200") == [
        ("sliding_window", 32, "model.layers.0.self_attn.attn", 32, 96, 16, 196608, 2047)
    ]


def test_phi_3_vision_names_its_layers_without_a_wrapper(tmp_path: Path) -> None:
    assert rows(tmp_path, PHI3V, "B200", tensor_parallel_size=2) == [
        ("sliding_window", 32, "model.layers.0.self_attn.attn", 16, 96, 16, 98304, 262144)
    ]


def test_a_llama_that_looks_both_ways_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is_causal"):
        rows(tmp_path, {**MINISTRAL3, "is_causal": False})


def test_a_window_beside_full_layers_only_means_nothing(tmp_path: Path) -> None:
    """The model-level window counts only where no layer is said to be full (engine/arg_utils.py)."""
    config = {**MINISTRAL3, "num_hidden_layers": 2, "sliding_window": 4096, "layer_types": ["full_attention"] * 2}
    assert [row[0] for row in rows(tmp_path, config)] == ["full_attention"]
