"""The command `kvplan`, and `python -m kvplan`."""

from __future__ import annotations

import os
import sys

from kvplan.commands import terminal


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

        code = terminal.guarded(lambda: quick.run(sys.argv[2:]))
    if code is None:
        from kvplan.cli import run

        code = terminal.guarded(run)
    sys.exit(code)


if __name__ == "__main__":
    main()
