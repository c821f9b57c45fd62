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
from recorder.case import from_fields, read
from recorder.checkpoint import Checkpoints
from recorder.files import architecture_of, line
from recorder.fold import fold_layers, numbers_in, runs, unfold_layers

from kvplan.sources.bundled import ids

ROOT = Path(__file__).resolve().parent.parent
CHECKPOINTS = Checkpoints(FOLDER / "configs")
FILES = sorted({golden.file for golden in goldens()})


def of_file(name: str) -> list[Golden]:
    return [golden for golden in goldens() if golden.file == name]


@pytest.mark.parametrize("file", FILES)
def test_plans_are_those_of_the_engine(file: str) -> None:
    wrong = [f"{golden.id}\n    {line}" for golden in of_file(file) for line in differences(golden)]
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(wrong[:20])


def test_every_case_is_recorded_once_and_nothing_without_a_case() -> None:
    cases = {case.id: case.fields() for case in read(FOLDER / "cases.jsonl")}
    recorded = [golden.id for golden in goldens()]
    assert sorted(recorded) == sorted(cases)
    for golden in goldens():
        given = json.loads(json.dumps(cases[golden.id]))
        assert {key: golden.content.get(key) for key in given} == given, golden.id
    assert len(cases) >= 1000


def test_a_file_holds_the_goldens_of_one_architecture_as_the_recorder_writes_them() -> None:
    for path in sorted(FOLDER.glob("*.jsonl")):
        if path.stem == "cases":
            continue
        text = path.read_text(encoding="utf-8")
        head, *entries = map(json.loads, text.splitlines())
        assert head == {"vllm": "0.33.0", "architecture": path.stem}
        assert text == "".join(f"{line(entry)}\n" for entry in (head, *entries)), f"{path.name} was written by hand"
        assert {architecture_of(from_fields(entry), CHECKPOINTS) for entry in entries} == {path.stem}


def test_every_bundled_config_is_covered() -> None:
    named = {golden.content["model"] for golden in goldens()}
    for golden in goldens():
        named.add((golden.content.get("options", {}).get("speculative_config") or {}).get("model"))
    assert set(ids()) <= named


def test_the_goldens_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 6 * 2**20


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

    def test_a_sample_is_recorded_byte_for_byte_as_it_stands() -> None:
        sample = ["--compare", "--sample", "60"]
        extra = ["--packages", os.environ["KVPLAN_PACKAGES"]] if "KVPLAN_PACKAGES" in os.environ else []
        command = [sys.executable, "-m", "tests.recorder", *sample, *extra]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
        assert made.returncode == 0, made.stdout or made.stderr[-2000:]
