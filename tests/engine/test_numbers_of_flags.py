"""Numbers that no deployment has are refused with the range that they must be in."""

from __future__ import annotations

import json

import pytest

from kvplan.errors import KvplanError
from tests.plan.test_budget import loaded

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 2048,
    "vocab_size": 100,
}


@pytest.mark.parametrize(
    ("flag", "value", "sentence"),
    [
        ("--max-model-len", "1" + "0" * 22, f"must be 1 to {2**40:,} tokens, or auto."),
        ("--max-num-seqs", "1" + "0" * 22, f"must be at least 1 and at most {2**40:,}."),
        ("--max-num-batched-tokens", "1" + "0" * 22, f"must be at least 1 and at most {2**40:,}."),
    ],
)
def test_a_number_that_is_too_large_is_not_called_too_small(flag: str, value: str, sentence: str) -> None:
    with pytest.raises(KvplanError) as refused:
        loaded("Qwen/Qwen3-8B", flag, value)
    assert str(refused.value) == f"{flag} {value} {sentence}"


@pytest.mark.parametrize("key", ["hidden_size", "vocab_size"])
def test_a_model_of_no_width_or_no_words_does_not_fit(tmp_path, key: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, key: 0}))
    with pytest.raises(KvplanError, match=f"config.json: {key} must be .*between 1 and "):
        loaded(str(tmp_path))


def test_the_field_that_the_file_has_is_named(tmp_path) -> None:
    for key in ("rope_scaling", "rope_parameters"):
        (tmp_path / "config.json").write_text(json.dumps({**LLAMA, key: "x"}))
        with pytest.raises(KvplanError, match=f"config.json: {key} must be "):
            loaded(str(tmp_path))
