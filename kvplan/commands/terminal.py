"""Where a command's text goes: the terminal or a file, and how a failure is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kvplan.errors import KvplanError, sentence

if TYPE_CHECKING:
    from kvplan.commands.outcome import Outcome
    from kvplan.report.style import View

WRONG_USAGE = 2


def view(output: str | None, ascii: bool) -> View:
    """How text is drawn: the terminal's width and colours, or 80 plain columns (COLUMNS where it is set)."""
    from kvplan.report.style import ASCII, PLAIN, UNICODE, View, ansi

    terminal = output is None and sys.stdout.isatty()
    colours = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    drawable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" or output is not None
    return View(min(_columns(terminal), 160), ASCII if ascii or not drawable else UNICODE, ansi if colours else PLAIN)


def _columns(terminal: bool) -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return (terminal and os.get_terminal_size(sys.stdout.fileno()).columns) or 80
    except (OSError, ValueError):
        return 80


def show(outcome: Outcome, output: str | None) -> int:
    """Write the text to stdout or, at once and whole, to the output file; the command's exit code."""
    for line in outcome.diagnostics:
        print(line, file=sys.stderr)
    if output is None:
        sys.stdout.write(outcome.text)
    else:
        from kvplan.files import write_whole

        write_whole(output, outcome.text)
    return outcome.exit_code


def guarded(run: Callable[[], int | None]) -> int | None:
    """What ``run`` gives; a refusal or wrong usage is one sentence on stderr and exit code 2."""
    try:
        code = run()
        sys.stdout.flush()
        return code
    except KvplanError as error:
        print(f"kvplan: {sentence(error)}", file=sys.stderr)
        return WRONG_USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
