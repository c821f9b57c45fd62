"""A vision tower caches nothing, and yet it must divide by the ranks: vLLM builds it, split, whatever is served.

What starts and what does not is what vLLM 0.33.0 does with the same configs, 8 ranks on an H200.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import planned

from kvplan.errors import Refused

GEMMA: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "dtype": "bfloat16",
}
QWEN: dict[str, Any] = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "dtype": "bfloat16",
    "text_config": {"num_hidden_layers": 4, "num_attention_heads": 16},
}
LLAVA: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "text_config": {"model_type": "llama", "dtype": "bfloat16", "num_hidden_layers": 2},
}


@pytest.mark.parametrize(
    ("config", "vision", "field"),
    [
        (GEMMA, {}, "num_attention_heads 12"),
        (GEMMA, {"num_attention_heads": 16, "intermediate_size": 1001}, "intermediate_size 1001"),
        (QWEN, {"num_heads": 12, "hidden_size": 864}, "num_heads 12"),
        (QWEN, {"intermediate_size": 1001}, "intermediate_size 1001"),
        (LLAVA, {"model_type": "pixtral", "num_attention_heads": 4}, "num_attention_heads 4"),
        (LLAVA, {"model_type": "pixtral", "intermediate_size": 1001}, "intermediate_size 1001"),
    ],
)
def test_a_tower_that_does_not_divide_keeps_vllm_from_starting(
    tmp_path: Path, config: dict[str, Any], vision: dict[str, Any], field: str
) -> None:
    for only in (False, True):
        with pytest.raises(Refused, match=f"{field.split()[1]}.? cannot be split over --tensor-parallel-size 8"):
            planned(
                tmp_path,
                {**config, "vision_config": vision},
                "H200",
                tensor_parallel_size=8,
                language_model_only=only,
            )


def test_it_starts_where_the_tower_divides(tmp_path: Path) -> None:
    for config in (QWEN, LLAVA, {**GEMMA, "vision_config": {"num_attention_heads": 16}}):
        assert planned(tmp_path, config, "H200", tensor_parallel_size=8).selected == "main"


def test_only_some_classes_can_leave_the_tower_whole(tmp_path: Path) -> None:
    whole = {"mm_encoder_tp_mode": "data"}
    qwen = {**QWEN, "vision_config": {"num_heads": 6, "hidden_size": 432}}
    assert planned(tmp_path, qwen, "H200", tensor_parallel_size=8, additional_flags=whole).selected == "main"
    with pytest.raises(Refused, match="num_attention_heads 12"):
        planned(tmp_path, GEMMA, "H200", tensor_parallel_size=8, additional_flags=whole)
