"""What files beside config.json make of a model. Expectations are those of vLLM 0.33.0 on the same directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError, Refused
from kvplan.pipeline import PlanRequest, plan
from kvplan.request import read_words
from kvplan.result import Result
from tests.engine.deployments import LLAMA, QWEN3_5

MODULES = [
    {"type": "sentence_transformers.models.Transformer"},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
]
GPTQ = {"bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"w_bit": 4, "q_group_size": 128, "zero_point": True}
FP8 = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
MIXED = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}
LAYERS = {"model.layers.0.mlp.down_proj": {"quant_algo": "FP8"}}


def planned(folder: Path, files: dict[str, Any], *flags: str, **config: Any) -> Result:
    files = {"config.json": {**LLAMA, "intermediate_size": 14336, **config}, **files}
    for name, value in files.items():
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return plan(PlanRequest(read_words([str(folder), *flags], {}), gpu="H200", offline=True))


def test_a_pooling_module_makes_an_embedding_model_unless_the_runner_is_given(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"pooling module.*add --runner generate"):
        planned(tmp_path, {"modules.json": MODULES})
    assert planned(tmp_path, {}, "--runner", "generate").config.max_model_len == 131072


def test_modules_without_pooling_change_nothing(tmp_path: Path) -> None:
    assert planned(tmp_path, {"modules.json": MODULES[:1]}).config.max_model_len == 131072


@pytest.mark.parametrize("modules", [{"modules": MODULES}, [{"x": 1}], ["x"], "x"])
def test_modules_that_vllm_cannot_read_are_refused(tmp_path: Path, modules: Any) -> None:
    with pytest.raises(Refused, match=r"modules\.json must list modules"):
        planned(tmp_path, {"modules.json": json.dumps(modules)})


@pytest.mark.parametrize(
    ("files", "length"),
    [
        ({"sentence_bert_config.json": {"max_seq_length": 512}}, 512),
        ({"sentence_bert_config.json": {"max_seq_length": 512.5}}, 512),
        ({"sentence_bert_config.json": {}, "sentence_roberta_config.json": {"max_seq_length": 700}}, 700),
        ({"sentence_bert_config.json": {"a": 1}, "sentence_roberta_config.json": {"max_seq_length": 700}}, 131072),
        ({"tokenizer_config.json": {"model_max_length": 512}}, 131072),
    ],
)
def test_a_sentence_transformers_length_replaces_the_configs(
    tmp_path: Path, files: dict[str, Any], length: int
) -> None:
    assert planned(tmp_path, files).config.max_model_len == length


def test_more_than_that_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"1024 is more than the 512 tokens .*max_seq_length beside it"):
        planned(tmp_path, {"sentence_bert_config.json": {"max_seq_length": 512}}, "--max-model-len", "1024")


@pytest.mark.parametrize(
    ("method", "files"),
    [
        ("gptq", {"quantize_config.json": GPTQ}),
        ("awq", {"quant_config.json": AWQ}),
        ("awq_marlin", {"my_quant_config.json": AWQ}),
        ("inc", {"quantization_config.json": {"bits": 4, "group_size": 128}}),
        ("moe_wna16", {"quantize_config.json": {**GPTQ, "quant_method": "gptq"}}),
    ],
)
def test_a_method_of_a_flag_finds_its_scheme_beside_the_config(
    tmp_path: Path, method: str, files: dict[str, Any]
) -> None:
    assert planned(tmp_path, files, "--quantization", method).config.quantization == method


def test_without_the_flag_such_a_file_is_not_read(tmp_path: Path) -> None:
    assert planned(tmp_path, {"quantize_config.json": "{"}).config.quantization is None


@pytest.mark.parametrize(
    ("method", "files", "sentence"),
    [
        ("gptq", {}, "finds none beside it"),
        ("gptq", {"quantize_config.json": {"bits": 4}}, "has no group_size, which gptq needs"),
        ("gptq", {"quantize_config.json": [1]}, r"quantize_config\.json must hold a JSON object"),
        ("moe_wna16", {"quantize_config.json": GPTQ}, "has no quant_method"),
        ("awq", {"quant_config.json": AWQ, "quantize_config.json": GPTQ}, "both fit --quantization awq"),
    ],
)
def test_what_vllm_cannot_load_is_refused(tmp_path: Path, method: str, files: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KvplanError, match=sentence):
        planned(tmp_path, files, "--quantization", method)


def test_an_older_modelopt_file_brings_its_cache_dtype(tmp_path: Path) -> None:
    files = {"hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": FP8}}
    assert planned(tmp_path, files).config.cache_dtype == "fp8_e4m3"


def test_that_file_is_not_read_where_the_config_has_a_scheme(tmp_path: Path) -> None:
    scheme = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    assert planned(tmp_path, {"hf_quant_config.json": "{"}, quantization_config=scheme).config.quantization == "fp8"


def test_layers_of_a_mixed_scheme_may_lie_beside_the_config(tmp_path: Path) -> None:
    inner = {"quant_algo": "MIXED_PRECISION", "quantized_layers": LAYERS}
    files = {"hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": inner}}
    assert planned(tmp_path, files, quantization_config=MIXED).config.quantization == "modelopt_mixed"


@pytest.mark.parametrize(
    ("layers", "files", "sentence"),
    [
        ({}, {}, "has no quantized_layers"),
        ({"quantized_layers": {}}, {}, "has no quantized_layers"),
        ({}, {"hf_quant_config.json": {"quantization": {"quantized_layers": LAYERS}}}, "modelopt as its producer"),
    ],
)
def test_a_mixed_scheme_without_its_layers_is_refused(
    tmp_path: Path, layers: dict[str, Any], files: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(KvplanError, match=sentence):
        planned(tmp_path, files, quantization_config={**MIXED, **layers})


def test_a_joint_head_makes_a_schema_model(tmp_path: Path) -> None:
    dense = {**QWEN3_5, "model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"]}
    dense["text_config"] = {**QWEN3_5["text_config"], "model_type": "qwen3_5_text"}
    with pytest.raises(Refused, match="ClefFlashForJointSchema"):
        planned(tmp_path, {"config.json": dense, "joint_head_config.json": {"head": 1}})
