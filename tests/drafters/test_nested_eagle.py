"""A drafter of model type eagle holds the config of its layers inside.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drafter_case import LLAMA_DRAFTER, drafted

from kvplan.errors import KvplanError

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
NESTED: dict[str, Any] = {"architectures": ["EAGLEModel"], "model_type": "eagle", "model": LLAMA_DRAFTER}


def test_its_layers_are_those_of_the_model_inside(tmp_path: Path) -> None:
    assert drafted(tmp_path, LLAMA, {**NESTED, "truncated_vocab_size": 128256}, "eagle", 3) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN")
    ]


def test_the_file_says_which_method_it_is_for(tmp_path: Path) -> None:
    inner = {**LLAMA_DRAFTER, "architectures": ["LlamaForCausalLMEagle3"]}
    config = {**NESTED, "method": "eagle3", "model": inner, "draft_vocab_size": 32000}
    assert drafted(tmp_path, LLAMA, config, "eagle3", 3) == [
        ("full_attention", 1, "model.layers.32.self_attn.attn", 8, 128, 16, 65536, None, "FLASH_ATTN")
    ]
    with pytest.raises(KvplanError, match="is of model type eagle for method eagle3"):
        drafted(tmp_path, LLAMA, config, "eagle", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "model must be the config of the drafter's layers"),
        ({"model": {"model_type": "nonsense"}}, "model type 'nonsense' is not one that kvplan reads"),
        ({"num_hidden_layers": 2}, "num_hidden_layers differs from that of model"),
        ({"rms_norm_eps": 0.5, "head_dim": 64}, "head_dim differs from that of model"),
        ({"method": "dflash"}, "method must be eagle or eagle3, got 'dflash'"),
        ({"model": {**LLAMA_DRAFTER, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}}, "EagleQwen2"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(KvplanError, match=message):
        drafted(tmp_path, LLAMA, {**NESTED, **changes}, "eagle", 3)
