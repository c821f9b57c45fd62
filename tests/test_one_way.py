"""Data flows one way: no module of kvplan reaches itself through what it imports, also not inside a function."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import kvplan

ROOT = Path(kvplan.__file__).parent


def modules() -> dict[str, Path]:
    names = {}
    for file in ROOT.rglob("*.py"):
        parts = ("kvplan", *file.relative_to(ROOT).with_suffix("").parts)
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """The modules of kvplan that a file imports, wherever it does."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = [f"{node.module}.{name.name}" for name in node.names]
            found |= {name if name in known else node.module for name in whole}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found & known


def graph() -> dict[str, set[str]]:
    files = modules()
    known = set(files) - {"kvplan"}  # the package itself hands out what the modules define
    return {name: imported(ast.parse(files[name].read_text("utf-8")), known) - {name} for name in known}


def cycle(edges: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_one_that_imports_it() -> None:
    edges = graph()
    assert "kvplan.planning.groups" in edges["kvplan.planning.planner"]
    assert cycle(edges) == []


def test_no_package_imports_one_that_imports_it() -> None:
    packages: dict[str, set[str]] = {}
    for name, needed in graph().items():
        own = ".".join(name.split(".")[:2])
        packages.setdefault(own, set()).update({".".join(each.split(".")[:2]) for each in needed} - {own})
    assert "kvplan.engine" in packages["kvplan.pipeline"]
    assert cycle(packages) == []


def test_a_cycle_is_found() -> None:
    assert set(cycle({"a": {"b"}, "b": {"a"}})) == {"a", "b"}
