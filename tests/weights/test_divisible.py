"""What does not divide over the ranks keeps vLLM from starting, and is refused. Expectations are vLLM 0.33.0's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import DoesNotStart, KvplanError
from kvplan.pipeline import PlanRequest, plan
from kvplan.request import read_words
from kvplan.result import Result
from kvplan.sides import target_model
from kvplan.weights.builder import Builder
from kvplan.weights.quant.base import Unquantized

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 3072,
    "intermediate_size": 6144,
    "num_attention_heads": 24,
    "num_key_value_heads": 6,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "vocab_size": 98304,
}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8}
GPT_OSS = {
    **LLAMA,
    "model_type": "gpt_oss",
    "architectures": ["GptOssForCausalLM"],
    "head_dim": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
}
VISION = {
    "model_type": "qwen3_vl",
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "text_config": {**LLAMA, "model_type": "qwen3_vl_text", "num_attention_heads": 32, "num_key_value_heads": 32},
    "vision_config": {"depth": 1, "num_heads": 16, "deepstack_visual_indexes": [0]},
}


def planned(folder: Path, config: dict[str, Any], *flags: str) -> Result:
    (folder / "config.json").write_text(json.dumps(config))
    return plan(PlanRequest(read_words([str(folder), *flags], {}), gpu="H200", offline=True))


@pytest.mark.parametrize(
    ("fields", "ranks", "sentence"),
    [
        ({"vocab_size": 100352}, 3, r"the padded vocabulary \(100352\)"),
        ({"intermediate_size": 6146}, 3, r"gate_up_proj \(6146\)"),
        ({"intermediate_size": 6147}, 2, r"gate_up_proj \(6147\)"),
    ],
)
def test_a_size_that_does_not_divide_is_refused(
    tmp_path: Path, fields: dict[str, Any], ranks: int, sentence: str
) -> None:
    with pytest.raises(DoesNotStart, match=sentence):
        planned(tmp_path, {**LLAMA, **fields}, "-tp", str(ranks))
    assert planned(tmp_path, {**LLAMA, **fields}).layers


PACKED: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True},
        }
    },
    "ignore": ["lm_head"],
}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


@pytest.mark.parametrize("quantization", [PACKED, AWQ])
def test_groups_must_divide_a_ranks_inputs(tmp_path: Path, quantization: dict[str, Any]) -> None:
    config = {**LLAMA, "intermediate_size": 6144 + 128, "quantization_config": quantization}
    with pytest.raises(DoesNotStart, match=r"down_proj: a rank's input size 3136 is not a multiple"):
        planned(tmp_path, config, "-tp", "2")
    assert planned(tmp_path, config).layers


def test_the_vocabulary_is_padded_before_it_is_split(tmp_path: Path) -> None:
    assert planned(tmp_path, {**LLAMA, "vocab_size": 98271}, "-tp", "6").layers


def test_whole_experts_are_not_split(tmp_path: Path) -> None:
    config = {**MIXTRAL, "intermediate_size": 6147}
    with pytest.raises(DoesNotStart, match="the experts' intermediate size"):
        planned(tmp_path, config, "-tp", "2")
    assert planned(tmp_path, config, "-tp", "2", "--enable-expert-parallel").layers


def test_gpt_oss_repeats_no_kv_head(tmp_path: Path) -> None:
    assert planned(tmp_path, GPT_OSS, "-tp", "8").layers
    with pytest.raises(DoesNotStart, match="num_key_value_heads 8 is too few for --tensor-parallel-size 16"):
        planned(tmp_path, GPT_OSS, "-tp", "16")


def test_the_heads_of_a_vision_tower_must_divide_unless_it_is_whole_on_every_rank(tmp_path: Path) -> None:
    with pytest.raises(DoesNotStart, match=r"the heads of visual\.blocks\.0\.attn\.qkv \(16\)"):
        planned(tmp_path, VISION, "-tp", "32")
    assert planned(tmp_path, VISION, "-tp", "32", "--mm-encoder-tp-mode", "data").layers


def test_a_model_of_more_tensors_than_any_has_is_given_up(tmp_path: Path) -> None:
    builder = Builder(target_model(planned(tmp_path, LLAMA).config), Unquantized())
    for i in range(100_000):
        builder.add(f"layers.{i}", 1)
    with pytest.raises(KvplanError, match="has more than 100000 tensors"):
        builder.add("one.more", 1)


def packed(**weights: Any) -> dict[str, Any]:
    """compressed-tensors with packed integers."""
    args = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True, **weights}
    group = {"targets": ["Linear"], "weights": args, "input_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head", "re:.*gate$"],
    }


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
FP8_BLOCKS = {
    **packed(num_bits=8, type="float", strategy="block", group_size=None, block_structure=[128, 128]),
    "format": "float-quantized",
}
FP8_BLOCKS["config_groups"]["group_0"]["input_activations"] = {
    "num_bits": 8,
    "type": "float",
    "strategy": "group",
    "group_size": 128,
    "dynamic": True,
    "symmetric": True,
}
QWEN_MOE: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
}


@pytest.mark.parametrize(
    ("scheme", "fields", "ranks", "sentence"),
    [
        (packed(), {}, 8, "a rank's intermediate size 96 must be multiples of the quantisation's group of 128"),
        (packed(num_bits=8, group_size=64), {}, 8, "intermediate size 96 must be multiples"),
        (packed(strategy="channel", group_size=None), {"hidden_size": 2080}, 2, "hidden size 2080 is not a multiple"),
        (
            packed(strategy="channel", group_size=None, symmetric=False),
            {"moe_intermediate_size": 1540},
            2,
            "twice the intermediate size is 1540, but zero points are packed by 8",
        ),
        (FP8_BLOCKS, {}, 8, "intermediate size 96 is not a multiple of the quantisation's blocks 128 x 128"),
        (GPTQ, {}, 16, "a rank's intermediate size 48 has no groups of at least 32"),
    ],
)
def test_experts_without_whole_groups_or_blocks_on_a_rank_keep_vllm_from_starting(
    tmp_path, scheme, fields, ranks, sentence
):
    with pytest.raises(DoesNotStart, match=sentence):
        planned(tmp_path, {**QWEN_MOE, "quantization_config": scheme, **fields}, "-tp", str(ranks))


@pytest.mark.parametrize(("scheme", "ranks"), [(packed(group_size=32), 8), (packed(), 6), (GPTQ, 8)])
def test_experts_with_whole_groups_on_every_rank_start(tmp_path, scheme, ranks):
    config = {**QWEN_MOE, "num_attention_heads": 48, "num_key_value_heads": 48, "quantization_config": scheme}
    assert planned(tmp_path, config, "-tp", str(ranks)).selected == "main"


def test_experts_must_divide_over_data_parallel_ranks_unless_whole_ones_are_dealt_out(tmp_path):
    """768 over five ranks."""
    with pytest.raises(DoesNotStart, match="the experts' intermediate size"):
        planned(tmp_path, QWEN_MOE, "--data-parallel-size", "5")
    assert planned(tmp_path, QWEN_MOE, "--data-parallel-size", "5", "--enable-expert-parallel").selected == "main"
    quantised = {**QWEN_MOE, "quantization_config": packed()}
    with pytest.raises(DoesNotStart, match="intermediate size 96"):
        planned(tmp_path, quantised, "--data-parallel-size", "8")
