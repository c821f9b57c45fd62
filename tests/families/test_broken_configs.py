"""Configs are untrusted: whatever one field holds, the answer is a plan with bytes in it, or one clear sentence."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import pytest
from gqa_case import planned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.errors import KvplanError

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if "\nCONFIGS = (" in path.read_text())
CONFIGS = [config for name in MODULES for config in importlib.import_module(name).CONFIGS]

MISSING = object()
AWKWARD = (
    *(MISSING, None, 0, -1, 1, 3, 7, 2**31, 2**70, 0.5, 1e300, float("inf"), float("nan"), True, False),
    *("", "64", "full_attention", "\ud800", [], {}, [0], ["nonsense"], [None], {"a": 1}, [[1]]),
    *(["sliding_attention"], ["full_attention"] * 3, [{"attention": None}], {"0": None}, {"text_config": {}}),
)
FURTHER = (
    "layer_types",
    "sliding_window",
    "head_dim",
    "num_key_value_heads",
    "per_layer_config",
    "num_kv_shared_layers",
    "attention_chunk_size",
    "no_rope_layers",
    "kv_lora_rank",
    "is_causal",
    "quantization_config",
    "vision_config",
    "text_config",
    "rope_parameters",
)
"""Fields that the configs above do not all have and that some family reads."""


def part_of(config: dict[str, Any], nested: bool) -> dict[str, Any]:
    """The text model's part where it is asked for and there is one, else the whole config."""
    section = config.get("text_config")
    return section if nested and isinstance(section, dict) else config


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config["architectures"][0]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_one_broken_field_gives_a_plan_or_a_sentence(
    tmp_path: Path, config: dict[str, Any], data: st.DataObject
) -> None:
    broken = copy.deepcopy(config)
    part = part_of(broken, data.draw(st.booleans()))
    key = data.draw(st.sampled_from([*part, *FURTHER]))
    value = data.draw(st.sampled_from(AWKWARD))
    if value is MISSING:
        part.pop(key, None)
    else:
        part[key] = value
    try:
        result = planned(tmp_path, broken, tensor_parallel_size=data.draw(st.sampled_from([1, 2, 4, 8])))
    except KvplanError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
        return
    for layer in result.layers:
        assert layer.spec.page_size_bytes > 0
        assert layer.spec.block_size > 0
    main = result.plans["main"]
    assert main.error is not None or (main.bytes_per_block or 0) > 0
