"""Small configs and GPUs that the engine's tests start from. Sizes are those of published models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.args import EngineArgs, EngineConfig, ModelFacts
from kvplan.engine.resolve import resolve
from kvplan.gpus import Gpu
from kvplan.hf import Config

B200 = Gpu("B200", (10, 0), 192 * 10**9, "NVIDIA B200")
H200 = Gpu("H200", (9, 0), 150_754_820_096, "NVIDIA H200")
A100 = Gpu("A100", (8, 0), 80 * 2**30, "NVIDIA A100-SXM4-80GB")
L4 = Gpu("L4", (8, 9), 24 * 2**30, "NVIDIA L4")
GB10 = Gpu("GB10", (12, 1), 128 * 10**9, "NVIDIA GB10")
T4 = Gpu("T4", (7, 5), 16 * 10**9, "Tesla T4")

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "n_routed_experts": 256,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 163840,
    "vocab_size": 129280,
    "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"},
}
QWEN3_5: dict[str, Any] = {
    "model_type": "qwen3_5_moe",
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "vision_config": {},
    "text_config": {
        "model_type": "qwen3_5_moe_text",
        "dtype": "bfloat16",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "num_hidden_layers": 40,
        "num_experts": 256,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 10,
        "mtp_num_hidden_layers": 1,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144,
        "vocab_size": 248320,
    },
}
DFLASH: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3",
    "architectures": ["DFlashDraftModel"],
    "num_hidden_layers": 5,
    "dflash_config": {"target_layer_ids": [1, 17, 33]},
    "block_size": 16,
}
EAGLE3: dict[str, Any] = {**LLAMA, "num_hidden_layers": 1, "max_position_embeddings": 2048}


def facts(data: Mapping[str, Any], name: str = "some/model", **fields: Any) -> ModelFacts:
    return ModelFacts(name, Config(data, f"{name}/config.json"), **fields)


def resolved(
    target: Mapping[str, Any] = LLAMA,
    drafter: Mapping[str, Any] | None = None,
    *,
    gpu: Gpu = B200,
    drafter_name: str = "some/drafter",
    fields: Mapping[str, Any] | None = None,
    **args: Any,
) -> EngineConfig:
    """The options of a deployment; ``args`` are flags under vLLM's names."""
    draft = None if drafter is None else facts(drafter, drafter_name)
    return resolve(EngineArgs(model="some/model", **args), facts(target, **(fields or {})), draft, gpu)
