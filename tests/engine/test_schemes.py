"""Schemes of checkpoints that vLLM loads, and those that it does not. Expectations are vLLM 0.33.0's."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import KvplanError
from tests.engine.deployments import LLAMA, resolved

FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8"}
NVFP4 = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}
NESTED = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": []}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
WEIGHTS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}


def method(scheme: dict[str, Any], **flags: Any) -> str | None:
    return resolved({**LLAMA, "quantization_config": scheme}, **flags).quantization


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        ({**FP8, "weight_block_size": [128, 128]}, "fp8"),
        ({**FP8, "ignored_layers": 0, "modules_to_not_convert": ["lm_head"]}, "fp8"),
        ({**GPTQ, "bits": 8}, "auto_gptq"),
        ({**GPTQ, "desc_act": True, "group_size": -1}, "auto_gptq"),
        ({**GPTQ, "dynamic": {"-:.*": {"desc_act": True}, "+:.*q": {"bits": 8}}}, "auto_gptq"),
        (AWQ, "auto_awq"),
        ({**MODELOPT, "quant_algo": "fp8_per_channel_per_token"}, "modelopt"),
        ({**NVFP4, "group_size": "16"}, "modelopt_fp4"),
        ({**NVFP4, "quant_algo": "W4A16_NVFP4", "ignore": ["lm_head"]}, "modelopt_fp4"),
        ({"producer": {"name": "modelopt"}, "quantization": NESTED}, "modelopt_fp4"),
        ({**PACKED, "config_groups": {"g": {"targets": ["Linear"], "weights": WEIGHTS}}}, "compressed-tensors"),
        ({**PACKED, "config_groups": {"g": {"targets": ["LlamaAttention"]}}}, "compressed-tensors"),
    ],
)
def test_a_scheme_that_its_method_takes(scheme: dict[str, Any], name: str) -> None:
    assert method(scheme) == name


@pytest.mark.parametrize(
    ("scheme", "sentence"),
    [
        ({**FP8, "activation_scheme": None}, "activation_scheme must be static or dynamic, got None"),
        ({**FP8, "weight_block_size": [128]}, "weight_block_size must have 2 entries"),
        ({**FP8, "weight_block_size": False}, "weight_block_size must be a list"),
        ({**FP8, "weight_block_size": [128, 128.0]}, "weight_block_size must have integers"),
        ({**FP8, "weight_block_size": [128, "128"]}, "weight_block_size must be an integer"),
        ({**FP8, "activation_scheme": "static", "weight_block_size": [128, 128]}, "needs activation_scheme dynamic"),
        ({**FP8, "modules_to_not_convert": ["lm_head", 8]}, r"modules_to_not_convert\[1\] must be a string"),
        ({**GPTQ, "desc_act": True}, "desc_act is true, and vLLM no longer orders"),
        ({**GPTQ, "dynamic": {"+:.*": {"desc_act": True}}}, "desc_act is true"),
        ({**GPTQ, "sym": False}, "sym must be true"),
        ({**GPTQ, "bits": 3}, "bits must be 4 or 8, got 3"),
        ({**AWQ, "bits": 8}, "bits must be 4, got 8"),
        ({**MODELOPT, "ignore": None}, "ignore must be a list"),
        ({**MODELOPT, "ignore": 0.5}, "ignore must be a list"),
        ({**NVFP4, "quant_algo": 7}, "quant_algo must be NVFP4 or W4A16_NVFP4"),
        ({**NVFP4, "group_size": "x"}, "group_size must be an integer"),
        (
            {"quant_method": "modelopt", "quantization": {**NESTED, "quant_algo": "FP8", "kv_cache_quant_algo": 8}},
            "kv_",
        ),
        ({**PACKED, "config_groups": {"g": ""}}, "config_groups: g must be a JSON object"),
        ({**PACKED, "config_groups": {"g": {"targets": ["Linear"]}}}, "weights is missing"),
        (
            {**PACKED, "config_groups": {"g": {"targets": ["Linear"], "weights": {**WEIGHTS, "actorder": "group"}}}},
            "actorder by groups",
        ),
        ({**PACKED, "sparsity_config": {"targets": ["Linear"]}}, "no longer loads sparse weights"),
    ],
)
def test_a_scheme_that_its_method_does_not_take(scheme: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KvplanError, match=sentence):
        method(scheme)


@pytest.mark.parametrize("key", ["group_size", "kv_cache_quant_algo", "exclude_modules"])
def test_older_nvfp4_files_must_have_all_fields(key: str) -> None:
    nested = {name: value for name, value in NESTED.items() if name != key}
    with pytest.raises(KvplanError, match=f"{key} is missing, which NVFP4 needs"):
        method({"producer": {"name": "modelopt"}, "quantization": nested})


def test_moe_wna16_does_not_take_over_what_it_cannot_load() -> None:
    with pytest.raises(KvplanError, match="contradicts the checkpoint"):
        method({**GPTQ, "desc_act": True}, quantization="moe_wna16")
