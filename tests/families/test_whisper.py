"""Whisper: every decoder layer caches its own tokens and, apart, the audio's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.errors import Refused

CONFIG = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "dtype": "float16",
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "decoder_layers": 32,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}
CONFIGS = (CONFIG,)


def test_self_and_cross_attention_in_each_layer(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 32, ".decoder.layers.0.layers.self_attn.attn", 20, 64, 16, 81920, None),
        ("cross_attention", 32, ".decoder.layers.0.layers.encoder_attn.attn", 20, 64, 16, 81920, None),
    ]


def test_heads_are_split(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=4) == [
        ("full_attention", 32, ".decoder.layers.0.layers.self_attn.attn", 5, 64, 16, 20480, None),
        ("cross_attention", 32, ".decoder.layers.0.layers.encoder_attn.attn", 5, 64, 16, 20480, None),
    ]


def test_heads_that_do_not_divide_the_width_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="d_model 1280"):
        rows(tmp_path, {**CONFIG, "decoder_attention_heads": 24, "encoder_attention_heads": 24})
