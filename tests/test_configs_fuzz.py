"""Configs are untrusted: whatever a field of one holds, the answer is a plan with bytes in it, or one clear sentence.

Every family and drafter with a golden is tried. KVPLAN_FUZZ_EXAMPLES sets the number of broken configs for each
(default 12).
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from goldens_replay import CONFIGS, goldens
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.pipeline import PlanRequest, plan
from kvplan.report.document import to_document
from kvplan.result import Result
from kvplan.sources import resolve

EXAMPLES = int(os.environ.get("KVPLAN_FUZZ_EXAMPLES", "12"))
GIB = 2**30

MISSING = object()
NUMBERS = (0, -1, 1, 2, 3, 7, 100, 2**31, 2**63, 10**30, 0.5, -0.0, 1e300, float("inf"), float("nan"), True, False)
TEXTS = ("", "64", "0", "full_attention", "sliding_attention", "nonsense", "auto", "float8", "\ud800", "x" * 300)
NESTED = ([], {}, [0], [None], ["nonsense"], [[1]], {"a": 1}, {"0": None}, [{"attention": None}], [1] * 3)
AWKWARD = (MISSING, None, *NUMBERS, *TEXTS, *NESTED)
FURTHER = (
    "layer_types",
    "sliding_window",
    "head_dim",
    "num_key_value_heads",
    "attention_chunk_size",
    "is_causal",
    "quantization_config",
    "text_config",
    "rope_parameters",
    "rope_scaling",
    "torch_dtype",
    "dtype",
    "architectures",
    "model_type",
    "num_nextn_predict_layers",
    "max_position_embeddings",
)
"""Fields that not every config has and that a family or the engine reads."""


class Subject(NamedTuple):
    """A deployment, and which of its two configs is broken."""

    name: str
    target: str
    speculative: dict[str, Any] | None
    broken: str
    """``target`` or ``drafter``."""

    @property
    def config(self) -> dict[str, Any]:
        id = self.target if self.broken == "target" else self.speculative["model"]  # type: ignore[index]
        return dict(resolve(id, offline=True).config)


def located(name: str) -> str:
    """A bundled id, or the file of an extra config."""
    file = CONFIGS / f"{name}.json"
    return str(file) if file.is_file() else name


def subjects() -> Iterator[Subject]:
    """One deployment for each target architecture, each drafter architecture and each built-in drafter."""
    seen = set()
    for golden in goldens():
        case = golden.content
        if "error" in case:
            continue
        speculative = case.get("options", {}).get("speculative_config")
        drafter, target = case["drafter"], located(case["model"])
        if drafter is None:
            subject = Subject(case["architecture"], target, None, "target")
        elif speculative is None:  # a speculators drafter in its target's place
            continue
        elif "model" in speculative:
            speculative = {**speculative, "model": located(speculative["model"])}
            subject = Subject(f"drafter {drafter['architecture']}", target, speculative, "drafter")
        else:
            name = f"{case['architecture']} with {drafter['architecture'] or drafter['method']}"
            subject = Subject(name, target, speculative, "target")
        if subject.name not in seen:
            seen.add(subject.name)
            yield subject


SUBJECTS = sorted(subjects())


def places(config: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a value in a config: keys of objects, and positions of lists."""
    items = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for key, value in items:
        yield (*path, key)
        if not isinstance(value, list) or len(value) < 200:
            yield from places(value, (*path, key))


def put(config: dict[str, Any], place: tuple[Any, ...], value: Any) -> None:
    """Put a value at a place that may be gone by now."""
    holder: Any = config
    for key in place[:-1]:
        try:
            holder = holder[key]
        except (KeyError, IndexError, TypeError):
            return
    key = place[-1]
    if isinstance(holder, dict) and value is MISSING:
        holder.pop(key, None)
    elif isinstance(holder, dict) or (isinstance(holder, list) and isinstance(key, int) and key < len(holder)):
        holder[key] = None if value is MISSING else copy.deepcopy(value)


@st.composite
def breakages(draw: st.DrawFn, config: dict[str, Any]) -> dict[str, Any]:
    """The config with one to three of its values replaced; lists also by one of another length."""
    broken = copy.deepcopy(config)
    everywhere = [*places(config), *((key,) for key in FURTHER)]
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(everywhere))
        value = draw(st.sampled_from(AWKWARD))
        held: Any = config
        for key in place:
            held = held.get(key) if isinstance(held, dict) else held[key]
        if isinstance(held, list) and held and draw(st.booleans()):
            value = draw(st.sampled_from([held[:-1], held * 2, [held[0]], [*held[:-1], "nonsense"]]))
        put(broken, place, value)
    return broken


def planned(folder: Path, subject: Subject, broken: dict[str, Any], size: int) -> Result:
    """The plan of a deployment whose target or drafter is the broken config."""
    (folder / "config.json").write_text(json.dumps(broken), encoding="utf-8")
    speculative, target = subject.speculative, subject.target
    if subject.broken == "target":
        target = str(folder)
    else:
        speculative = {**(speculative or {}), "model": str(folder)}
    args = EngineArgs(target, speculative_config=speculative, tensor_parallel_size=size)
    return plan(PlanRequest(args, gpu="H200", offline=True, available_memory_bytes=(50 * GIB,)))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: str(subject.name))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_broken_config_gives_a_plan_or_a_sentence(tmp_path: Path, subject: Subject, data: st.DataObject) -> None:
    broken = data.draw(breakages(subject.config))
    try:
        result = planned(tmp_path, subject, broken, data.draw(st.sampled_from([1, 2, 4, 8])))
    except KvplanError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
        assert len(sentence) < 1500
        return
    assert result.layers
    for layer in result.layers:
        assert layer.spec.page_size_bytes > 0
        assert layer.spec.block_size > 0
    for own in result.plans.values():
        assert own.error or (own.bytes_per_block or 0) > 0
        assert own.error or (own.kv_cache_size_tokens or 0) > 0
    json.dumps(to_document(result), allow_nan=False)
