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
