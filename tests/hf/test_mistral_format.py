"""A params.json in Mistral's format beside its weights is read as vLLM 0.33.0 reads it, which the numbers are of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.pipeline import PlanRequest, plan
from kvplan.request import read_words
from kvplan.result import Result

MISTRAL = {
    "dim": 4096,
    "n_layers": 4,
    "head_dim": 128,
    "hidden_dim": 14336,
    "n_heads": 32,
    "n_kv_heads": 8,
    "norm_eps": 1e-5,
    "vocab_size": 32768,
    "rope_theta": 1000000.0,
}
CONFIG = {
    "model_type": "mistral",
    "architectures": ["MistralForCausalLM"],
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 10,
    "max_position_embeddings": 32768,
}
EXPERTS = {
    "route_every_n": 1,
    "first_k_dense_replace": 3,
    "num_experts": 128,
    "num_experts_per_tok": 4,
    "expert_hidden_dim": 4096,
    "num_shared_experts": 1,
    "num_expert_groups": 1,
    "num_expert_groups_per_tok": 1,
    "routed_scale": 1.0,
}
LATENT = {
    **MISTRAL,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "kv_lora_rank": 512,
    "v_head_dim": 128,
    "llama_4_scaling": {"original_max_position_embeddings": 8192, "beta": 0.1},
}
VISION = {
    "hidden_size": 1024,
    "num_channels": 3,
    "image_size": 1540,
    "patch_size": 14,
    "rope_theta": 10000.0,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_token_id": 10,
}
YARN = {"factor": 16, "original_max_position_embeddings": 16384, "alpha": 1, "beta": 4, "apply_scale": False}


def planned(folder: Path, params: dict[str, Any], *flags: str, dtype: str = "BF16", **files: Any) -> Result:
    header = json.dumps({"t": {"dtype": dtype, "shape": [2], "data_offsets": [0, 4]}}).encode()
    (folder / "consolidated.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    (folder / "params.json").write_text(json.dumps(params))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return plan(PlanRequest(read_words([str(folder), *flags], {}), gpu="H200", offline=True))


def told(result: Result) -> tuple[str, int, int, int]:
    """Architecture, layers, bytes of a page, length."""
    pages = {layer.spec.page_size_bytes for layer in result.layers}
    return result.model.architecture, len(result.layers), max(pages), result.config.max_model_len


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ("MistralForCausalLM", 4, 65536, 128000)),
        ({"max_position_embeddings": 65536}, ("MistralForCausalLM", 4, 65536, 65536)),
        ({"max_position_embeddings": 65536, "max_seq_len": 32000}, ("MistralForCausalLM", 4, 65536, 32000)),
        ({"max_position_embeddings": 262144, "yarn": YARN}, ("MistralForCausalLM", 4, 65536, 262144)),
        ({**LATENT, "moe": EXPERTS}, ("MistralLarge3ForCausalLM", 4, 18432, 128000)),
        (LATENT, ("MistralLarge3ForCausalLM", 4, 18432, 128000)),
        ({"vision_encoder": VISION}, ("PixtralForConditionalGeneration", 4, 65536, 128000)),
    ],
)
def test_params_json_decides(tmp_path: Path, params: dict[str, Any], expected: tuple[str, int, int, int]) -> None:
    assert told(planned(tmp_path, {**MISTRAL, **params})) == expected


def test_config_json_fills_what_params_json_leaves_out(tmp_path: Path) -> None:
    assert told(planned(tmp_path, MISTRAL, config=CONFIG)) == ("MistralForCausalLM", 4, 65536, 32768)


def test_mixtral_needs_its_experts_from_config_json(tmp_path: Path) -> None:
    params = {**MISTRAL, "moe": {"num_experts": 8, "num_experts_per_tok": 2}}
    with pytest.raises(KvplanError, match="num_local_experts is missing"):
        planned(tmp_path, params)
    config = {**CONFIG, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    assert told(planned(tmp_path, params, config=config)) == ("MixtralForCausalLM", 4, 65536, 32768)


def test_config_format_hf_reads_config_json(tmp_path: Path) -> None:
    result = planned(tmp_path, MISTRAL, "--config-format", "hf", config=CONFIG)
    assert told(result) == ("MistralForCausalLM", 10, 65536, 32768)


def test_the_dtype_is_that_of_the_consolidated_weights(tmp_path: Path) -> None:
    assert planned(tmp_path, MISTRAL, dtype="F16").config.dtype == "float16"


def test_a_list_of_windows_repeats_over_the_layers(tmp_path: Path) -> None:
    result = planned(tmp_path, {**MISTRAL, "sliding_window": [None, 4096]})
    assert [getattr(layer.spec, "sliding_window", None) for layer in result.layers] == [None, 4096, None, 4096]


@pytest.mark.parametrize(("kind", "scheme"), [("NO_SCALES", "dynamic"), ("TENSOR", "static"), (None, "static")])
def test_fp8_weights_are_read_from_the_format_of_the_file(tmp_path: Path, kind: str | None, scheme: str) -> None:
    quantization = {"qformat_weight": "fp8_e4m3", "qscheme_act": kind}
    config = planned(tmp_path, {**MISTRAL, "quantization": quantization}).config
    expected = {"quant_method": "fp8", "activation_scheme": scheme}
    assert (config.quantization, config.target.root.get("quantization_config")) == ("fp8", expected)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"sliding_window": [1024, 4096]}, "sliding_window must have one size"),
        ({"sliding_window": "4096"}, "sliding_window must be an integer or a list"),
        ({"sliding_window": [None, 4096, 4096]}, "layer_types has 3 entries for num_hidden_layers 4"),
        ({"yarn": {**YARN, "x": 1}}, "yarn has fields that vLLM does not know: x"),
        ({"quantization": {"a": 1}}, "quantization is not one that vLLM knows"),
        ({"quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "X"}}, "has qscheme_act 'X'"),
        ({**LATENT, "llama_4_scaling": None}, "llama_4_scaling must have original_max_position_embeddings"),
        ({"vision_encoder": {"hidden_size": 1024}}, "num_channels is missing"),
        ({"multimodal": {"whisper_model_args": {"encoder_args": {}}}}, "has an audio encoder"),
        ({"model_type": "mamba"}, "model_type 'mamba' is not one that kvplan reads there"),
        ({"n_layers": None}, "num_hidden_layers must be"),
    ],
)
def test_what_vllm_cannot_read_or_kvplan_cannot_judge_is_refused(
    tmp_path: Path, params: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(KvplanError, match=sentence):
        planned(tmp_path, {**MISTRAL, **params})
