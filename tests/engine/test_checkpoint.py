"""What is read of a checkpoint: class, dtype, quantisation, KV cache dtype. Expectations are vLLM 0.33.0's."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engine.kv_cache_dtype import checkpoint_cache_dtype
from kvplan.errors import KvplanError, Refused
from tests.engine.deployments import B200, DEEPSEEK, H200, L4, LLAMA, QWEN3_5, T4, resolved

NESTED = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
FP8_KV = {"dynamic": False, "num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("names", "architecture"),
    [
        (["LlamaForCausalLM", "Unknown"], "LlamaForCausalLM"),
        (["Unknown", "LlamaForCausalLM"], "LlamaForCausalLM"),
        (["Mistral4ForCausalLM"], "TransformersForCausalLM"),
        (["YoutuForCausalLM"], "TransformersForCausalLM"),
    ],
)
def test_first_known_class_wins_and_others_are_wrapped(names: list[str], architecture: str) -> None:
    assert resolved({**LLAMA, "architectures": names}).target.architecture == architecture


def test_experts_choose_the_wrapper_for_mixtures() -> None:
    config = {**LLAMA, "architectures": ["SolarOpenForCausalLM"], "n_routed_experts": 8}
    assert resolved(config).target.architecture == "TransformersMoEForCausalLM"


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["MiniMaxM1ForCausalLM"], "MiniMaxM1ForCausalLM until v0.23.0"),
        (["Nemotron3_5AsrForRNNT"], "plugin"),
        (["BertModel"], "embeds or classifies"),
        (["Nope"], "no model class for architecture Nope"),
        (None, "names no architectures"),
    ],
)
def test_a_class_that_vllm_does_not_run_is_refused_by_name(names: list[str] | None, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        resolved({**LLAMA, "architectures": names})


def test_a_vision_tower_makes_mimo_v2_omni_and_drops_its_chunk_size() -> None:
    config = {**LLAMA, "model_type": "mimo_v2", "architectures": ["MiMoV2ForCausalLM"], "attention_chunk_size": 128}
    omni = resolved({**config, "vision_config": {"hidden_size": 1}})
    assert (resolved(config).target.architecture, omni.target.architecture) == (
        "MiMoV2ForCausalLM",
        "MiMoV2OmniForCausalLM",
    )
    assert "attention_chunk_size" not in omni.target.text


@pytest.mark.parametrize(
    ("named", "gpu", "flag", "dtype"),
    [
        ("bfloat16", B200, "auto", "bfloat16"),
        ("float16", B200, "auto", "float16"),
        ("float32", B200, "auto", "bfloat16"),
        ("float64", B200, "auto", "bfloat16"),
        (None, B200, "auto", "bfloat16"),
        ("bfloat16", T4, "auto", "float16"),
        ("bfloat16", B200, "half", "float16"),
        ("bfloat16", B200, "float", "float32"),
    ],
)
def test_dtype(named: str | None, gpu: Any, flag: str, dtype: str) -> None:
    assert resolved({**LLAMA, "dtype": named}, gpu=gpu, dtype=flag).dtype == dtype


def test_dtype_of_the_text_model_counts_where_the_root_has_none() -> None:
    assert resolved(QWEN3_5).dtype == "bfloat16"


def test_dtype_of_the_weights_counts_where_the_config_has_none() -> None:
    assert resolved({**LLAMA, "dtype": None}, fields={"weight_dtypes": ("float16",)}).dtype == "float16"


def test_an_overridden_dtype_is_lost_as_in_vllm() -> None:
    assert resolved(hf_overrides={"dtype": "float16"}).dtype == "bfloat16"


def test_gemma2_is_not_run_in_float16() -> None:
    gemma = {**LLAMA, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}
    assert resolved({**gemma, "dtype": "float16"}).dtype == "bfloat16"
    with pytest.raises(Refused, match="gemma2 in float16"):
        resolved(gemma, dtype="float16")


@pytest.mark.parametrize(
    ("scheme", "method", "cache_dtype"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", "auto"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}, "auto_gptq", "auto"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "auto_awq", "auto"),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "inc", "auto"),
        ({"quant_method": "compressed_tensors"}, "compressed-tensors", "auto"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": FP8_KV}, "modelopt", "fp8_e4m3"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "modelopt_fp4", "fp8_e4m3"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}, "modelopt_fp4", "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "modelopt_mxfp8", "auto"),
        (
            {"producer": {"name": "modelopt"}, "quantization": NESTED},
            "modelopt_fp4",
            "fp8_e4m3",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "kv_cache_scheme": {**FP8_KV, "strategy": "tensor", "symmetric": True},
            },
            "compressed-tensors",
            "fp8",
        ),
    ],
)
def test_quantisation_and_the_kv_dtype_that_it_brings(scheme: dict[str, Any], method: str, cache_dtype: str) -> None:
    config = resolved({**LLAMA, "quantization_config": scheme})
    assert (config.quantization, config.cache_dtype) == (method, cache_dtype)


def test_a_scheme_beside_the_config_is_read() -> None:
    scheme = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    config = resolved(fields={"hf_quant_config": scheme})
    assert (config.quantization, config.cache_dtype) == ("modelopt", "fp8_e4m3")


def test_an_unknown_modelopt_kv_scheme_falls_back_to_the_model_dtype() -> None:
    dynamic = {"quant_method": "modelopt", "kv_cache_scheme": {**FP8_KV, "dynamic": True}}
    assert checkpoint_cache_dtype(dynamic) == "auto"
    assert checkpoint_cache_dtype({"quant_method": "fp8", "kv_cache_scheme": FP8_KV}) is None


def test_a_flag_wins_over_the_checkpoint() -> None:
    scheme = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    assert resolved({**LLAMA, "quantization_config": scheme}, kv_cache_dtype="bfloat16").cache_dtype == "bfloat16"


@pytest.mark.parametrize(
    ("config", "args", "sentence"),
    [
        (LLAMA, {"quantization": "awq"}, "names no quantisation"),
        (DEEPSEEK, {"quantization": "awq"}, "contradicts the checkpoint, which is quantised with fp8"),
        (LLAMA, {"quantization": "nope"}, "nope is not one"),
        ({**LLAMA, "quantization_config": {"quant_method": "bitsandbytes"}}, {}, "bitsandbytes is not one"),
        ({**LLAMA, "quantization_config": {"quant_method": "fp8"}}, {}, "has no activation_scheme"),
        (LLAMA, {"kv_cache_dtype": "float16"}, "differs from the model's dtype bfloat16"),
        (LLAMA, {"kv_cache_dtype": "int3"}, "int3 is not one"),
        (DEEPSEEK, {"kv_cache_dtype": "nvfp4"}, "nvfp4 does not work with multi-head latent attention"),
    ],
)
def test_what_vllm_refuses_of_a_checkpoint(config: dict[str, Any], args: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KvplanError, match=sentence):
        resolved(config, **args)


def test_quantisation_needs_the_gpu_and_the_dtype() -> None:
    mxfp4 = {**LLAMA, "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"]}
    mxfp4["quantization_config"] = {"quant_method": "mxfp4"}
    assert resolved(mxfp4, gpu=L4).quantization == "gpt_oss_mxfp4"
    with pytest.raises(Refused, match=r"gpt_oss_mxfp4 needs compute capability 8\.0"):
        resolved(mxfp4, gpu=T4)
    with pytest.raises(Refused, match="runs in bfloat16, not in float16"):
        resolved(mxfp4, dtype="float16")


def test_glm_moe_dsa_defaults_to_fp8_on_blackwell_only() -> None:
    glm = {**DEEPSEEK, "model_type": "glm_moe_dsa", "architectures": ["GlmMoeDsaForCausalLM"], "index_topk": 2048}
    assert resolved(glm, gpu=B200).cache_dtype == "fp8_e4m3"
    assert resolved(glm, gpu=H200).cache_dtype == "auto"
    assert resolved(glm, gpu=B200, kv_cache_dtype="bfloat16").cache_dtype == "bfloat16"


def test_overrides_replace_objects_but_merge_nested_configs() -> None:
    config = resolved(
        QWEN3_5, hf_overrides={"text_config": {"max_position_embeddings": 1000}, "vision_config": {"a": 1}}
    )
    assert config.max_model_len == 1000
    assert config.target.text.get("num_attention_heads") == 16
    assert config.target.root.get("text_config")["max_position_embeddings"] == 1000


def test_an_override_of_the_model_type_is_refused() -> None:
    with pytest.raises(Refused, match="--hf-overrides model_type 'qwen3'"):
        resolved(hf_overrides={"model_type": "qwen3"})


def test_an_override_of_a_section_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="--hf-overrides text_config"):
        resolved(hf_overrides={"text_config": {"max_position_embeddings": 1000}})
