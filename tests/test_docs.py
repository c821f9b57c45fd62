"""What README.md and docs/ show is what kvplan prints."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from kvplan.check.fleet import LIMITS, OWN_KEYS
from kvplan.connectors import _NO_PREFERENCE, preferred_layout

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


def fenced(page: str, info: str) -> list[str]:
    """The blocks of a page in docs/ with this info string."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [
        body for found, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if found == info
    ]


def test_the_family_that_is_shown_is_the_file() -> None:
    assert fenced("adding-a-family.md", "")[0] == (ROOT / "kvplan/families/mixtral.py").read_text(encoding="utf-8")


def test_the_workflow_that_is_shown_gives_inputs_that_the_action_has() -> None:
    (workflow,) = [yaml.safe_load(block) for block in fenced("ci.md", "") if block.startswith("on:")]
    step = workflow["jobs"]["capacity"]["steps"][-1]
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert set(step["with"]) <= set(action["inputs"])
    rows = set(
        re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", _section("ci.md", "GitHub"), re.MULTILINE)))
    )
    assert rows == set(action["inputs"])


def test_every_key_and_limit_of_a_check_file_is_in_its_table() -> None:
    named = set(re.findall(r"`([a-z_]+)(?:: false)?`", _section("ci.md", "The file")))
    assert set(OWN_KEYS) | set(LIMITS) <= named


def test_the_layouts_that_connectors_ask_for() -> None:
    rows = re.findall(r"^\| (\w+Connector.*?) \| (\w+)", _section("layouts.md", "KV connectors"), re.MULTILINE)
    shown = {name: layout for names, layout in rows for name in names.split(", ")}
    del shown["MultiConnector"]
    assert {name: preferred_layout({"kv_connector": name}, use_mla=False) for name in shown} == shown
    others = set(_NO_PREFERENCE)
    assert not others & set(shown)


def _section(page: str, title: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
