"""The command `kvplan`, and `python -m kvplan`."""

from __future__ import annotations

import os
import sys

from kvplan.commands import terminal
from kvplan.errors import KvplanError


def main() -> None:
    """Run the command line."""
    terminal.open_streams()
    terminal.interruptible(_run)


def _run() -> None:
    """A plan without Typer, everything else with it."""
    code = terminal.guarded(lambda: terminal.spare_inputs(sys.argv[1:]))
    completing = "_KVPLAN_COMPLETE" in os.environ  # the shell asks Typer for words
    if code is None and sys.argv[1:2] == ["plan"] and not completing:
        from kvplan import quick

        code = terminal.guarded(lambda: quick.run(sys.argv[2:]), _better)
    if code is None:
        from kvplan.cli import run

        code = terminal.guarded(run, _better)
    sys.exit(code)


def _better(error: KvplanError) -> KvplanError:
    """An error of the reader of vLLM's flags with kvplan's own options in mind."""
    from kvplan.usage import with_own_options

    return with_own_options(error, sys.argv[1:], _own_options)


def _own_options(command: str) -> tuple[str, ...]:
    from kvplan.cli import own_options

    return own_options(command)


if __name__ == "__main__":
    main()
