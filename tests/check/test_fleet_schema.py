"""The JSON schema of check files is that of the code, and turns away nothing that the command takes."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kvplan.check.fleet import read_fleet
from kvplan.check.nodes import parse
from kvplan.commands.check import schema
from kvplan.errors import KvplanError
from kvplan.serve.flagtable import option_strings

ROOT = Path(__file__).resolve().parents[2]
VALIDATOR = Draft202012Validator(json.loads(schema()))


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fleet_schema", ROOT / "scripts" / "fleet_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_schema_is_that_of_the_code() -> None:
    assert schema() == _script().text(), "run scripts/fleet_schema.py --update"
    Draft202012Validator.check_schema(json.loads(schema()))


def taken(text: str) -> bool:
    """Whether `kvplan check` reads the file and every deployment in it."""
    try:
        return all(each.error is None for each in read_fleet(parse(text, "f.yaml"), "f.yaml"))
    except KvplanError:
        return False


EXAMPLE = """
defaults:
  gpu: H200
  kv_cache_memory: 60GiB
  limits: {must_start: true}
deployments:
- name: chat
  model: Qwen/Qwen3-8B
  tensor_parallel_size: 2
  max-model-len: 32k
  kv_cache_dtype: fp8
  no_enable_prefix_caching: true
  cudagraph_capture_sizes: [1, 2, 4]
  speculative_config: {model: AngelSlim/Qwen3-8B_eagle3, method: eagle3, num_speculative_tokens: 3}
  capacity_loss: 2%
  limits:
    min_tokens: 100000
    min_concurrency: {requests: 4, length: 8192}
    max_growing_padding_fraction: 10%
    max_groups: 4
    min_prefix_hit_tokens: 64
    layout: LBHNC
- name: pasted
  serve: vllm serve Qwen/Qwen3-8B --max-model-len 8192
  engine: vllm-next
  kv_cache_memory: [20GiB, 24GiB]
  env: {VLLM_KV_CACHE_LAYOUT: NHD}
  limits: {must_start: null}
  drafter: AngelSlim/Qwen3-8B_eagle3
  num_speculative_tokens: 3
"""


def test_a_file_with_every_own_key_is_valid() -> None:
    VALIDATOR.validate(yaml.safe_load(EXAMPLE))
    read = read_fleet(parse(EXAMPLE, "f.yaml"), "f.yaml")
    assert [(each.name, each.error) for each in read] == [("chat", None), ("pasted", None)]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "deployments: []",
        "deployment: [{name: a, model: m}]",
        "deployments: [{model: m}]",
        "deployments: [{name: a}]",
        "deployments: [{name: a, model: m, serve: vllm serve m}]",
        "deployments: [{name: a, serve: vllm serve m, max_model_len: 8}]",
        "deployments: [{name: a, model: m, tensor_paralel_size: 2}]",
        "deployments: [{name: a, model: m, engine: vllm-9}]",
        "deployments: [{name: a, model: m, limits: {min-tokens: 3}}]",
        "deployments: [{name: a, model: m, limits: {min_tokens: -1}}]",
        "deployments: [{name: a, model: m, limits: {min_concurrency: {length: 8}}}]",
        "deployments: [{name: a, model: m, capacity_loss: much}]",
        "deployments: [{name: a, model: m, capacity_loss: 5}]",
        "deployments: [{name: a, model: m, limits: {layout: BLHCN}}]",
        "deployments: [{name: a, model: m, kv-cache-memory: 60GiB}]",
        "defaults: {model: m}\ndeployments: [{name: a, model: m}]",
    ],
)
def test_what_the_command_turns_away_the_schema_does_too(text: str) -> None:
    assert not VALIDATOR.is_valid(yaml.safe_load(text))
    assert not taken(text)


def test_every_option_of_vllm_is_known_in_both_spellings() -> None:
    names = {text[2:] for text in option_strings() if text.startswith("--")} - {"help", "model", "config"}
    for name in names:
        for key in (name, name.replace("-", "_")):
            told = [
                error.message
                for error in VALIDATOR.iter_errors({"deployments": [{"name": "a", "model": "m", key: True}]})
            ]
            assert not any("unexpected" in message or "do not match" in message for message in told), told


WORDS = [
    text[2:].replace("-", "_")
    for text in option_strings()
    if text.startswith("--") and text not in ("--help", "--config")
]
VALUES = st.one_of(
    st.booleans(),
    st.integers(-1, 10**6),
    st.floats(0, 2),
    st.sampled_from(["auto", "None", "fp8", "16k", "bfloat16", "eagle3", "1%", "60GiB", "BLHNC", "H200", ""]),
    st.lists(st.integers(1, 9), min_size=2, max_size=3),
)
KEYS = st.one_of(st.sampled_from(WORDS), st.sampled_from(_script().fleet.OWN_KEYS))
OWN = st.fixed_dictionaries({"name": st.just("a"), "model": st.just("m")})
LIMITS = st.dictionaries(st.sampled_from(_script().fleet.LIMITS), VALUES, max_size=2)


@settings(deadline=None)
@given(OWN, st.dictionaries(KEYS, VALUES, max_size=3), LIMITS)
def test_what_the_command_takes_is_valid(own, further, limits) -> None:
    document = {"deployments": [{**further, "limits": limits, **own}]}
    if taken(yaml.safe_dump(document)):
        VALIDATOR.validate(document)


def test_the_files_that_the_documentation_shows_are_valid() -> None:
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```yaml\n(# fleet.yaml\n.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert shown
    for block in shown:
        VALIDATOR.validate(yaml.safe_load(block))
