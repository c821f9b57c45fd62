"""The help of every command: arguments with their sentence, marks without escapes."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from kvplan.cli import app

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def told(command: str) -> str:
    result = CliRunner().invoke(app, [command, "--help"], terminal_width=80)
    assert result.exit_code == 0
    return result.output


def test_a_required_argument_is_explained_and_marked() -> None:
    assert "  FILE.yaml  Deployments with their limits.  [required]\n" in told("check")
    assert "  LOG  A start-up log, or - for stdin.  [required]\n" in told("verify")


def test_an_argument_that_takes_flags_too_is_explained() -> None:
    assert "  [MODEL [VLLM FLAGS]...]  A path, a bundled id or a hub id.\n" in told("plan")


def test_no_help_shows_an_escape() -> None:
    assert [command for command in COMMANDS if "\\" in told(command)] == []
    assert len(COMMANDS) == 10
