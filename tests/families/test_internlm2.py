"""InternLM2: grouped-query attention under a name of its own, the head size always the quotient.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["InternLM2ForCausalLM"],
    "model_type": "internlm2",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "vocab_size": 92544,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000,
    "tie_word_embeddings": False,
}
CONFIGS = (CONFIG,)


def test_every_layer_is_alike(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 32, "model.layers.0.attention.attn", 8, 128, 16, 65536, None)
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 32, "model.layers.0.attention.attn", 1, 128, 16, 4096, None)
    ]
