"""Starting up costs what is used: no drafter, no drafter's modules."""

from __future__ import annotations

import subprocess
import sys


def test_planning_without_a_drafter_imports_none_of_its_modules() -> None:
    code = "import sys, kvplan.engine.resolve; print(*(m for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kvplan.engine.resolve" in loaded
    unwanted = {"transformers", "pydantic", "yaml", "rich", "typer", "kvplan.engine.speculative", "kvplan.engine.mtp"}
    assert not unwanted & set(loaded)
