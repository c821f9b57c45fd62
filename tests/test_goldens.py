"""kvplan gives what vLLM gave: every golden of tests/goldens, field by field.

Layers with their specs, backends and kernel blocks; resolved options; layout and candidates; and under each of the
three groupings the groups with their layers in order, bytes per block, blocks, blocks per request, tokens, kernel block
sizes and whether the cache can be bound. Where vLLM refuses a deployment, kvplan refuses it. docs/renewing-goldens.md
says how goldens are made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from goldens_replay import FOLDER, Golden, differences, goldens
from recorder.case import read
from recorder.fold import fold_layers, numbers_in, runs, unfold_layers

from kvplan.sources.bundled import ids

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted({golden.file for golden in goldens()})
SAMPLE = (
    "Qwen/Qwen3-8B on H200 tensor_parallel_size=3",
    "google/gemma-3-27b-it on H200",
    "zai-org/GLM-5.3-Flash on B200",
    "Qwen/Qwen3.6-35B-A3B on B200",
    "openai/gpt-oss-20b + lmsys/EAGLE3-gpt-oss-20b-bf16 eagle3 3 on B200",
)
"""Goldens that are recorded anew where vLLM is installed: one refusal, window, packed, state and drafter each."""


def of_file(name: str) -> list[Golden]:
    return [golden for golden in goldens() if golden.file == name]


@pytest.mark.parametrize("file", FILES)
def test_plans_are_those_of_the_engine(file: str) -> None:
    wrong = [f"{golden.id}\n    {line}" for golden in of_file(file) for line in differences(golden)]
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:20])


def test_every_case_has_a_golden_and_every_golden_its_case() -> None:
    cases = {case.id for case in read(FOLDER / "cases.jsonl")}
    assert {golden.id for golden in goldens()} == cases
    assert len(cases) >= 300


def test_every_bundled_config_is_covered() -> None:
    named = {golden.content["model"] for golden in goldens()}
    for golden in goldens():
        named.add((golden.content.get("options", {}).get("speculative_config") or {}).get("model"))
    assert set(ids()) <= named


def test_every_file_says_which_engine_it_comes_from() -> None:
    assert {golden.vllm for golden in goldens()} == {"0.33.0"}


def test_the_goldens_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 3 * 2**20


def test_runs_are_read_back() -> None:
    for numbers in ([], [3], [0, 1, 2, 3], [0, 2, 4, 6, 7, 8, 3], [5, 4, 3], [1, 1, 2], [0, 10, 20, 30, 31, 32, 40]):
        assert numbers_in(runs(numbers)) == numbers
    assert runs([0, 2, 4, 6, 8, 10, 4]) == "0-10:2,4"


def test_layers_are_unfolded_in_the_order_of_the_engine() -> None:
    layers = [(f"model.layers.{i}.{part}", {"kind": part}) for i in range(7) for part in ("attn", "k_cache")]
    layers.append(("mtp.attn", {"kind": "attn"}))
    rows, folded = fold_layers(layers)
    assert len(rows) == 2
    assert unfold_layers(rows, folded) == layers


if find_spec("vllm"):

    def test_a_sample_is_recorded_as_it_stands() -> None:
        own = {golden.id: golden.content for golden in goldens()}
        extra = ["--packages", os.environ["KVPLAN_PACKAGES"]] if "KVPLAN_PACKAGES" in os.environ else []
        for id in SAMPLE:
            command = [sys.executable, "-m", "tests.recorder", "--print", "--id", id, *extra]
            made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
            assert json.loads(made.stdout) == own[id]
