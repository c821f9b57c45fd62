"""MiMo is a Qwen2: the head size is the quotient even where the config has another.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from gqa_case import rows

from kvplan.engine.args import EngineArgs
from kvplan.errors import Refused
from kvplan.pipeline import PlanRequest, plan

CONFIG = {
    "architectures": ["MiMoForCausalLM"],
    "model_type": "mimo",
    "dtype": "bfloat16",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-05,
    "rope_theta": 640000,
    "tie_word_embeddings": False,
    "vocab_size": 151680,
}
CONFIGS = (CONFIG,)


def test_every_layer_is_alike(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 36, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None)
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 36, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None)
    ]


def test_the_vision_towers_kv_heads_bound_the_ranks_of_mimo_v2_omni() -> None:
    args = EngineArgs("XiaomiMiMo/MiMo-V2.5", tensor_parallel_size=16, language_model_only=True)
    with pytest.raises(Refused, match=r"vision_config\.num_key_value_heads 8 cannot be split"):
        plan(PlanRequest(args, gpu="H200", offline=True))


def test_on_hopper_layers_of_two_head_sizes_take_a_cache_format_that_only_the_constructor_looks_at() -> None:
    """vLLM binds these layers to their backend itself, whose constructor asks FlashAttention about fp8 alone."""
    made = plan(PlanRequest(EngineArgs("XiaomiMiMo/MiMo-V2-Flash", kv_cache_dtype="nvfp4"), gpu="H200", offline=True))
    pages = {(layer.backend, layer.spec.kind, layer.spec.page_size_bytes) for layer in made.layers}
    assert pages == {
        ("FLASH_ATTN_DIFFKV", "full_attention", 20480),
        ("FLASH_ATTN_DIFFKV", "sliding_window", 40960),
    }


def test_triton_takes_layers_of_two_head_sizes_over_fp8_alone() -> None:
    """The engine: "TritonAttentionDiffKVBackend supports only fp8/fp8_e4m3 quantized KV cache"."""
    args = EngineArgs("XiaomiMiMo/MiMo-V2-Flash", attention_backend="TRITON_ATTN_DIFFKV", kv_cache_dtype="fp8")
    assert plan(PlanRequest(args, gpu="B200", offline=True)).selected == "main"
    with pytest.raises(Refused, match="TRITON_ATTN_DIFFKV does not support --kv-cache-dtype nvfp4"):
        plan(PlanRequest(args._replace(kv_cache_dtype="nvfp4"), gpu="B200", offline=True))
