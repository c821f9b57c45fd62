"""AMD Quark's checkpoints: bytes of the first of two ranks as vLLM 0.33.0's own models create them (meta device)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.commands.deployment import Choices, request
from kvplan.errors import Refused
from kvplan.inputs import read
from kvplan.pipeline import plan_read
from kvplan.weights.checks import stages

DENSE: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
ROUTED: dict[str, Any] = {
    **DENSE,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}


def scheme(dtype: str, by: str, *, dynamic: bool = False, group: int | None = None) -> dict[str, Any]:
    scales = "float" if group is None else "e8m0"
    return {
        "dtype": dtype,
        "qscheme": by,
        "is_dynamic": dynamic,
        "group_size": group,
        "symmetric": True,
        "scale_format": scales,
    }


def layers(weight: Any, inputs: Any) -> dict[str, Any]:
    return {"weight": weight, "input_tensors": inputs, "output_tensors": None, "bias": None}


def quark(default: Any, excluded: list[str], own: Any = None, cache: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "quant_method": "quark",
        "global_quant_config": default,
        "exclude": excluded,
        "layer_quant_config": own or {},
        "layer_type_quant_config": {},
        "export": {"kv_cache_group": list(cache), "pack_method": "reorder"},
    }


BY_MATRIX = layers(scheme("fp8_e4m3", "per_tensor"), scheme("fp8_e4m3", "per_tensor"))
BY_ROW = layers(scheme("fp8_e4m3", "per_channel"), scheme("fp8_e4m3", "per_channel", dynamic=True))
MXFP4 = layers(scheme("fp4", "per_group", group=32), scheme("fp4", "per_group", dynamic=True, group=32))
CACHE = {name: {**BY_MATRIX, "output_tensors": scheme("fp8_e4m3", "per_tensor")} for name in ("*k_proj", "*v_proj")}
GATES = ["model.layers.0.mlp.gate", "model.layers.1.mlp.gate"]
CASES = [
    (DENSE, quark(BY_MATRIX, ["lm_head"], CACHE, ("*k_proj", "*v_proj")), 3806880),
    (DENSE, quark(BY_ROW, ["lm_head", "re:.*down_proj"]), 4346416),
    (DENSE, quark(MXFP4, ["lm_head"], {"*self_attn*": BY_ROW}), 3076656),
    (ROUTED, quark(BY_MATRIX, ["lm_head", *GATES]), 5396400),
    (ROUTED, quark(BY_ROW, ["lm_head"]), 5444208),
    (ROUTED, quark(BY_ROW, ["lm_head", "model.layers.1.mlp.experts.3.down_proj"]), 6992496),
]


def target_bytes(tmp_path, model, quantization) -> int:
    (tmp_path / "config.json").write_text(json.dumps({**model, "quantization_config": quantization}), encoding="utf-8")
    wanted = request([str(tmp_path), "-tp", "2"], Choices(gpu="H200", offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    result = plan_read(wanted._replace(args=args), inputs)
    (stage,) = stages(result.config, inputs.target, inputs.drafter)
    return sum(tensor.bytes for tensor in stage.target)


@pytest.mark.parametrize(("model", "quantization", "wanted"), CASES)
def test_quark_holds_what_the_engine_creates(tmp_path, model, quantization, wanted):
    assert target_bytes(tmp_path, model, quantization) == wanted


INT8 = layers(scheme("int8", "per_channel"), scheme("int8", "per_channel", dynamic=True))
UNKNOWN = [
    (DENSE, quark(INT8, [])),
    (DENSE, quark(layers([BY_ROW["weight"], BY_ROW["weight"]], BY_ROW["input_tensors"]), [])),
    (DENSE, quark({**BY_ROW, "output_tensors": BY_ROW["weight"]}, [])),
    (DENSE, quark(BY_ROW, ["re:.*q_proj"])),
    (DENSE, quark(BY_ROW, [], {"*q_proj": BY_MATRIX})),
    (ROUTED, quark(MXFP4, [])),
    (ROUTED, quark(layers(BY_ROW["weight"], BY_MATRIX["input_tensors"]), [])),
]


@pytest.mark.parametrize(("model", "quantization"), UNKNOWN)
def test_quarks_other_schemes_are_refused(tmp_path, model, quantization):
    with pytest.raises(Refused):
        target_bytes(tmp_path, model, quantization)
