"""A plan line means the same with Typer and without it."""

from __future__ import annotations

import sys

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from kvplan import cli, quick
from kvplan.commands import plan as command
from kvplan.commands.outcome import Outcome

PARAMETERS = [p for p in typer.main.get_command(cli.app).commands["plan"].params if p.name != "words"]
WORDS = st.sampled_from(
    [
        "m",
        "Qwen/Qwen3-8B",
        "-tp",
        "2",
        "-1",
        "--max-model-len",
        "--max-model-len=8",
        "--gpu",
        "--gpu=H200",
        "--format",
        "json",
        "--format=",
        "-o",
        "-o=f",
        "-of",
        "f",
        "--output=f",
        "--offline",
        "--offline=1",
        "--ascii",
        "--verbose",
        "--",
        "-h",
        "--help",
        "-O3",
        "--no-enable-prefix-caching",
        "--speculative-config",
        '{"a": 1}',
        "--drafter",
        "--method",
        "",
        "-",
    ]
)


def test_the_options_are_those_that_typer_declares():
    values = {flag: p.name for p in PARAMETERS if not p.is_flag for flag in p.opts}
    switches = {flag: p.name for p in PARAMETERS if p.is_flag for flag in p.opts if p.name != "help"}
    assert (values, switches) == (quick.VALUES, quick.SWITCHES)
    assert all(not p.secondary_opts and not p.multiple for p in PARAMETERS)


def seen(run, monkeypatch: pytest.MonkeyPatch):
    """What the command is called with; the exit code where it is not called."""
    calls = []

    defaults = {"format": "text", "verbose": False}

    def record(*args: object, **kwargs: object) -> Outcome:
        calls.append((args, {k: v for k, v in kwargs.items() if v is not None and defaults.get(k) != v}))
        return Outcome("")

    with monkeypatch.context() as patch:
        patch.setattr(command, "run", record)
        patch.setattr("kvplan.commands.terminal.show", lambda outcome, output: calls.append(output) or 0)
        code = run()
    return calls or code


@given(st.lists(WORDS, max_size=7))
def test_lines_are_read_alike(words):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", ["kvplan", "plan", *words])
        quickly = seen(lambda: quick.run(words), monkeypatch)
        if quickly is not None:
            assert quickly == seen(cli.run, monkeypatch)


@pytest.mark.parametrize("words", [["m", "--"], ["m", "--help"], ["m", "-h"], ["m", "--gpu"], [], ["--gpu", "H200"]])
def test_what_is_not_sure_is_left_to_typer(words):
    assert quick.run(words) is None
