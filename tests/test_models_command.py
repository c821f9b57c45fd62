"""`kvplan models` says what the goldens say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

from kvplan.commands import models
from kvplan.families import architectures
from kvplan.sources.bundled import ids

ROOT = Path(__file__).resolve().parent.parent


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_verified", ROOT / "scripts" / "make_verified.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_data_file_is_what_the_goldens_give() -> None:
    text = (ROOT / "kvplan" / "verified.json").read_text(encoding="utf-8")
    assert text == _script().content(), "run python scripts/make_verified.py"


def test_every_architecture_with_a_file_is_listed_once() -> None:
    document = json.loads(models.run("json").text)
    for package, kind in models.PACKAGES.items():
        listed = [row["architecture"] for row in document["architectures"] if row["kind"] == kind]
        assert sorted(listed) == sorted(architectures(package))


def test_nothing_verified_is_missing_from_the_list() -> None:
    listed = {(row.kind, row.architecture) for row in models.found()}
    covered = {(kind, name) for kind, names in models.verified().items() for name in names}
    assert covered <= listed


def test_every_bundled_model_that_an_engine_plans_is_listed() -> None:
    listed = {id for row in models.found() for id in row.bundled}
    script = _script()
    planned = {id for _, golden in script.planned() for _, _, id in script.subjects(golden)}
    assert listed == set(ids()) & planned
    assert len(listed) >= 0.9 * len(ids())


def test_an_architecture_without_goldens_is_said_to_be_not_verified() -> None:
    row = models.Architecture("XForCausalLM", "target", 0, (), (), (), ())
    assert row.verified == "not verified"
    assert row._replace(goldens=1, engine_versions=("0.33.0",)).verified == "1 golden, vLLM 0.33.0"
    assert row._replace(goldens=2, engine_versions=("0.33.0", "0.34.0")).verified == "2 goldens, vLLM 0.33.0, 0.34.0"


def test_the_table_fits_and_ends_with_the_sum() -> None:
    lines = models.run("text").text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("goldens of a real engine.")
    assert any(line.startswith("Qwen3ForCausalLM") and "vLLM 0.33.0" in line for line in lines)
