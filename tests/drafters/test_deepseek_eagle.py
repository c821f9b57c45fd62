"""EAGLE and EAGLE3 of DeepSeek: MLA layers after the target's.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from drafter_case import changed, drafted

V3 = "deepseek-ai/DeepSeek-V3"
KIMI = "moonshotai/Kimi-K2-Instruct"


def test_eagle_of_deepseek_v3(tmp_path: Path) -> None:
    config = changed(V3, num_hidden_layers=1)
    assert drafted(tmp_path, V3, config, "eagle", 2, tensor_parallel_size=8) == [
        ("mla", 1, "model.layers.61.self_attn.attn", 1, 576, 16, 18432, None, "FLASH_ATTN_MLA")
    ]


def test_eagle3_of_kimi_k2(tmp_path: Path) -> None:
    config = changed(KIMI, architectures=["Eagle3DeepseekV2ForCausalLM"], num_hidden_layers=1, draft_vocab_size=163840)
    assert drafted(tmp_path, KIMI, config, "eagle3", 3, gpu="B200", tensor_parallel_size=8) == [
        ("mla", 1, "model.layers.61.self_attn.attn", 1, 576, 32, 36864, None, "FLASHINFER_MLA")
    ]


def test_its_cache_keeps_the_drafters_own_dtype(tmp_path: Path) -> None:
    config = changed(KIMI, architectures=["Eagle3DeepseekV3ForCausalLM"], num_hidden_layers=2)
    assert drafted(tmp_path, KIMI, config, "eagle3", 3, gpu="B200", tensor_parallel_size=8) == [
        ("mla", 2, "model.layers.61.self_attn.attn", 1, 576, 32, 36864, None, "FLASHINFER_MLA")
    ]
