"""What is not a model config is refused in one sentence that names the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.errors import KvplanError, sentence
from kvplan.sources import resolve
from kvplan.sources.jsonfile import parse_object

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def refused(path: Path | str) -> str:
    with pytest.raises(KvplanError) as caught:
        resolve(str(path), offline=True)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not valid JSON (line 1, column 1"),
        (b"{", "not valid JSON"),
        (b"[1, 2]", "must hold a JSON object, but holds a list"),
        (b'"llama"', "but holds a string"),
        (b"null", "but holds null"),
        (b"\xff\xfe{}", "not UTF-8 text (byte 0)"),
        (b"GGUF\x03\x00\x00\x00", "a GGUF checkpoint"),
        (b'{"model_type": "llama", "model_type": "qwen3"}', "the key 'model_type' appears twice"),
        (b'{"text_config": {"a": 1, "b": 2, "a": 3}}', "the key 'a' appears twice"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number with too many digits"),
        (b'{"a": ' + b"[" * 100_000, "nested deeper than 64 levels"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "nested deeper than 64 levels"),
        (b"{}", "neither model_type nor architectures"),
        (b'{"hidden_size": 4096}', "neither model_type nor architectures"),
        (b'{"peft_type": "LORA", "r": 8}', "a PEFT adapter"),
        (b'{"metadata": {}, "weight_map": {}}', "an index of weight files"),
        (b'{"tokenizer_class": "LlamaTokenizer"}', "a tokenizer config"),
        (b'{"dim": 4096, "n_layers": 32, "n_kv_heads": 8}', "Mistral format"),
        (b'{"producer": {"name": "modelopt"}, "quantization": {}}', "a quantization config"),
        (b'{"do_sample": true, "temperature": 0.6}', "a generation config"),
    ],
)
def test_a_file_of_another_kind_is_named_for_what_it_is(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    sentence = refused(path)
    assert sentence.startswith(str(path))
    assert says in sentence


def test_a_file_larger_than_8_mib_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "padding": "x" * (8 * 2**20)}))
    assert "larger than 8 MiB" in refused(path)


def test_infinity_in_a_field_nobody_reads_is_no_error(tmp_path: Path) -> None:
    """Published Mamba configs have ``"time_step_limit": [0.0, Infinity]``."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]}))
    assert resolve(str(path)).config["time_step_limit"] == [0.0, float("inf")]


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert resolve(str(path)).config == LLAMA


@given(st.binary(max_size=400))
def test_any_bytes_give_an_object_or_one_sentence(data: bytes) -> None:
    try:
        outcome: object = parse_object(data, "config.json")
    except KvplanError as error:
        outcome = str(error)
    assert isinstance(outcome, dict) or str(outcome).startswith("config.json: ")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(values=st.dictionaries(st.text(), json_values, max_size=6))
def test_the_digest_depends_on_the_content_alone(tmp_path: Path, values: dict[str, object]) -> None:
    content = {**values, **LLAMA}
    (tmp_path / "a.json").write_text(json.dumps(content))
    (tmp_path / "b.json").write_text(json.dumps(dict(sorted(content.items(), reverse=True)), indent=3))
    (tmp_path / "c.json").write_text(json.dumps({**content, "hidden_size": -1}))
    a, b, c = (resolve(str(tmp_path / f"{name}.json")).digest for name in "abc")
    assert a == b
    assert a != c or content.get("hidden_size") == -1


def test_the_digest_is_the_sha256_of_the_canonical_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{ "model_type" : "llama" }')
    # sha256 of {"model_type":"llama"}
    assert resolve(str(tmp_path)).digest == "fd11fd11fceeb9df51a63f347cec3af4051d086fccb030e78777a83a4d3289e8"


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a named pipe" in refused(tmp_path / "pipe")


def test_what_a_config_says_cannot_write_to_the_terminal() -> None:
    assert (
        sentence(KvplanError("class \x1b[31mX\n\nY\u202e" + "z" * 9999))
        == "class \\x1b[31mX Y\\u202e" + "z" * 3977 + "..."
    )


def test_a_manifest_in_place_of_a_model_is_told_what_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text("kind: Deployment")
    assert "; `kvplan args` reads the serve line of such a file" in refused(path)
