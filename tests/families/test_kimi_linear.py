"""Kimi-Linear and Kimi-K3: states of Kimi delta attention, latents in the layers between, pages made equal.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sparse_case import names, planned, rows

from kvplan.errors import KvplanError
from kvplan.spec import StateSpec

LINEAR: dict[str, Any] = {
    "kda_layers": [1, 2, 3, 5, 6, 7],
    "full_attn_layers": [4, 8],
    "num_heads": 32,
    "head_dim": 128,
    "short_conv_kernel_size": 4,
}
TEXT: dict[str, Any] = {
    "model_type": "kimi_linear",
    "hidden_size": 2304,
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "mla_use_nope": True,
    "num_experts": 8,
    "num_experts_per_token": 2,
    "moe_intermediate_size": 1024,
    "max_position_embeddings": 131072,
    "linear_attn_config": LINEAR,
}
CONFIG: dict[str, Any] = {**TEXT, "architectures": ["KimiLinearForCausalLM"], "dtype": "bfloat16"}
FULL_RANK = {**LINEAR, "use_full_rank_gate": True, "gate_lower_bound": -5.0}
K3: dict[str, Any] = {
    "architectures": ["KimiK3ForConditionalGeneration"],
    "model_type": "kimi_k3",
    "dtype": "bfloat16",
    "text_config": {**TEXT, "linear_attn_config": FULL_RANK, "q_lora_rank": 1536},
    "vision_config": {},
}
P = "language_model.model.layers"


def linear(**fields: Any) -> dict[str, Any]:
    """Kimi-Linear with other fields of its linear attention; None takes one away."""
    section = {key: value for key, value in {**LINEAR, **fields}.items() if value is not None}
    return {**CONFIG, "linear_attn_config": section}


def state(folder: Path, config: dict[str, Any], gpu: str = "H200", **options: Any) -> StateSpec:
    """The spec of the first layer, which keeps a state."""
    spec = planned(folder, config, gpu, **options).layers[0].spec
    assert isinstance(spec, StateSpec)
    return spec


def test_kda_layers_count_from_one(tmp_path: Path) -> None:
    assert names(tmp_path, CONFIG, "H200") == [f"model.layers.{i}.self_attn" for i in range(8)]
    assert rows(tmp_path, CONFIG, "H200") == [
        ("mamba", 6, "model.layers.0.self_attn", 1920, 2211840),
        ("mla", 2, "model.layers.3.self_attn", 1920, 2211840),
    ]


def test_kimi_k3_is_the_text_model_under_another_prefix(tmp_path: Path) -> None:
    assert rows(tmp_path, K3, "B200", tensor_parallel_size=4, kv_cache_dtype="fp8") == [
        ("mamba", 6, f"{P}.0.self_attn", 1024, 589824),
        ("mla", 2, f"{P}.3.self_attn", 1024, 589824),
    ]


def test_only_a_full_rank_gate_that_is_bounded_exports_checkpoints(tmp_path: Path) -> None:
    unbounded = {key: value for key, value in FULL_RANK.items() if key != "gate_lower_bound"}
    found = [
        state(tmp_path, config).prefill_checkpoint_alignment
        for config in (CONFIG, linear(**FULL_RANK), linear(**unbounded), linear(gate_lower_bound=-1.0))
    ]
    assert found == [None, 16, None, None]


def test_no_checkpoints_on_ampere_nor_with_triton(tmp_path: Path) -> None:
    config = linear(**FULL_RANK)
    assert state(tmp_path, config, "A100 80GB").prefill_checkpoint_alignment is None
    options = {"additional_flags": {"kda_prefill_backend": "triton"}}
    assert state(tmp_path, config, **options).prefill_checkpoint_alignment is None


def test_flashinfer_prefills_without_checkpoints_where_its_kernel_runs(tmp_path: Path) -> None:
    config = linear(**FULL_RANK)
    options = {"additional_flags": {"kda_prefill_backend": "flashinfer"}, "mamba_ssm_cache_dtype": "bfloat16"}
    assert state(tmp_path, config, "B200", **options).prefill_checkpoint_alignment is None
    for gpu, more in (("H200", {}), ("B200", {"mamba_ssm_cache_dtype": "float32"})):
        with pytest.raises(KvplanError, match=r"flashinfer needs compute capability 10\.0 or 10\.3"):
            state(tmp_path, config, gpu, **{**options, **more})
    with pytest.raises(KvplanError, match="flashinfer"):
        state(tmp_path, CONFIG, "B200", **options)


def test_recurrent_states_are_float32_by_default(tmp_path: Path) -> None:
    spec = state(tmp_path, CONFIG, tensor_parallel_size=2)
    assert (spec.shapes, spec.dtypes) == (((3, 6144), (16, 128, 128)), ("bfloat16", "float32"))


def test_a_full_rank_layer_takes_bfloat16_states(tmp_path: Path) -> None:
    assert state(tmp_path, linear(**FULL_RANK), mamba_ssm_cache_dtype="bfloat16").dtypes == ("bfloat16", "bfloat16")


def test_kimi_linears_own_layer_does_not_and_overflows_its_page(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match=r"2170880 bytes .* does not fit the page of 1179648 bytes"):
        planned(tmp_path, CONFIG, "H200", mamba_ssm_cache_dtype="bfloat16")


def test_mixed_kv_dtypes_double_the_states_page(tmp_path: Path) -> None:
    options = {"kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ("3",)}
    assert rows(tmp_path, CONFIG, "H200", **options) == [
        ("mamba", 6, "model.layers.0.self_attn", 3840, 4423680),
        ("mla", 2, "model.layers.3.self_attn", 3840, 2211840),
    ]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({**CONFIG, "linear_attn_config": None}, "linear_attn_config"),
        (linear(kda_layers=[9]), "kda_layers"),
        (linear(kda_layers="all"), "kda_layers"),
        (linear(full_attn_layers=None), "full_attn_layers"),
        (linear(num_heads=0), "num_heads"),
        (linear(head_dim=2**70), "head_dim"),
        (linear(short_conv_kernel_size=None), "short_conv_kernel_size"),
        (linear(gate_lower_bound=-6.0), "gate_lower_bound"),
        (linear(gate_lower_bound=0), "gate_lower_bound"),
        ({**CONFIG, "mla_use_nope": False}, "mla_use_nope"),
        ({**CONFIG, "kv_lora_rank": -512}, "kv_lora_rank"),
        ({**CONFIG, "qk_nope_head_dim": 96}, "qk_nope_head_dim 96"),
    ],
)
def test_a_broken_field_is_named(tmp_path: Path, config: dict[str, Any], named: str) -> None:
    with pytest.raises(KvplanError, match=named):
        planned(tmp_path, config, "H200")


def test_the_heads_of_the_states_must_divide(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match=r"\(6\) cannot be split over --tensor-parallel-size 4"):
        planned(tmp_path, linear(num_heads=6), "H200", tensor_parallel_size=4)
