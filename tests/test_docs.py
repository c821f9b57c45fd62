"""What README.md and docs/ show is what kvplan prints."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("doc_outputs", ROOT / "scripts" / "doc_outputs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["doc_outputs"] = module
    spec.loader.exec_module(module)
    return module


doc_outputs = _script()
PAGES = [pytest.param(path, id=path.name) for path in doc_outputs.files()]


@pytest.mark.parametrize("path", PAGES)
def test_a_shown_output_is_what_the_command_prints(path: Path) -> None:
    for block, now in doc_outputs.presented(path.read_text(encoding="utf-8")):
        assert now == block.shown, " ".join(block.command)


@pytest.mark.parametrize("path", PAGES)
def test_a_link_to_another_page_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_readme_shows_the_main_job() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [" ".join(block.command) for block in doc_outputs.blocks(text)]
    main_job = "kvplan compare Qwen/Qwen3.6-35B-A3B-FP8 --drafter z-lab/Qwen3.6-35B-A3B-DFlash"
    assert any(command.startswith(main_job) for command in commands)
