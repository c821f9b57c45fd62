"""Step 3.5: sliding layers have query heads of their own and the same KV heads.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

from gqa_case import rows

CONFIG = {
    "architectures": ["Step3p5ForCausalLM"],
    "model_type": "step3p5",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 8,
    "num_attention_heads": 64,
    "num_attention_groups": 8,
    "head_dim": 128,
    "sliding_window": 512,
    "layer_types": ["full_attention", *["sliding_attention"] * 3] * 2,
    "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 96},
    "max_position_embeddings": 262144,
    "use_moe_router_bias": True,
    "need_fp32_gate": True,
    "norm_expert_weight": True,
}
CONFIGS = (CONFIG,)


def test_three_sliding_to_one_full(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "H200") == [
        ("full_attention", 2, "model.layers.0.self_attn.attn", 8, 128, 16, 65536, None),
        ("sliding_window", 6, "model.layers.1.self_attn.attn", 8, 128, 16, 65536, 512),
    ]


def test_eight_ranks(tmp_path: Path) -> None:
    assert rows(tmp_path, CONFIG, "B200", tensor_parallel_size=8, kv_cache_dtype="fp8") == [
        ("full_attention", 2, "model.layers.0.self_attn.attn", 1, 128, 16, 4096, None),
        ("sliding_window", 6, "model.layers.1.self_attn.attn", 1, 128, 16, 4096, 512),
    ]
