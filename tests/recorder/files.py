"""The files of goldens: one for each architecture, a golden a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .case import Case
from .checkpoint import Checkpoints


def architecture_of(case: Case, checkpoints: Checkpoints) -> str:
    """The first architecture that the model's config names."""
    config = json.loads((Path(checkpoints.path(case.model)) / "config.json").read_text(encoding="utf-8"))
    return str((config.get("architectures") or ["none"])[0])


def line(entry: dict[str, Any]) -> str:
    """A golden as it stands in its file."""
    return json.dumps(entry, separators=(",", ":"))


def load(path: Path) -> dict[str, dict[str, Any]]:
    """The goldens of one file by id, without its first line."""
    if not path.exists():
        return {}
    return {golden["id"]: golden for golden in map(json.loads, path.read_text(encoding="utf-8").splitlines()[1:])}


def store(path: Path, goldens: dict[str, dict[str, Any]], version: str) -> None:
    """Write one architecture's goldens, the engine's version first."""
    head = {"vllm": version, "architecture": path.stem}
    lines = [line(entry) for entry in (head, *goldens.values())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
