"""Where a command's text goes: the terminal or a file, and how a failure is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
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


def spare_inputs(words: Sequence[str]) -> None:
    """KvplanError where the output file of a command line is one of the files that the line names to be read."""
    own = list(words)
    own = own[: own.index("--")] if "--" in own else own
    outputs: list[str] = []
    named: list[str] = []
    rest = iter(own)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--output" and equals:
            outputs.append(value)
        elif word in ("-o", "--output"):
            outputs.append(next(rest, ""))
        else:
            named += [word, value]
    for output in outputs:
        if any(_same_file(word, output) for word in named):
            raise KvplanError(f"{output}: is read by this command and would be overwritten; give -o another file.")


def _same_file(one: str, other: str) -> bool:
    """Whether both name the same file; a device or pipe can be read and written."""
    try:
        return os.path.isfile(other) and os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def show(outcome: Outcome, output: str | None) -> int:
    """Write the text to stdout or, at once and whole, to the output file; the command's exit code."""
    for line in outcome.diagnostics:
        print(line, file=sys.stderr)
    if output is None:
        write(outcome.text)
    else:
        from kvplan.files import write_whole

        write_whole(output, outcome.text)
    return outcome.exit_code


def write(text: str) -> None:
    """Write to stdout, now. A reader that has gone away is no failure: what the command found does not change by it.

    KvplanError where stdout cannot take the text.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except OSError as error:
        _silence()
        raise KvplanError(f"stdout: cannot be written ({error.strerror}).") from None


def _silence() -> None:
    """Nothing more goes to stdout, nor fails as Python flushes it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """A stream that was closed before the start swallows what is written to it."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def guarded(
    run: Callable[[], int | None], better: Callable[[KvplanError], KvplanError] = lambda error: error
) -> int | None:
    """What ``run`` gives; a refusal or wrong usage is one sentence on stderr and exit code 2.

    ``better``: what more the command line has to say of an error.
    """
    try:
        code = run()
        write("")
        return code
    except KvplanError as error:
        _complain(f"kvplan: {sentence(better(error))}")
        return WRONG_USAGE
    except BrokenPipeError:
        _silence()
        return 0


def _complain(text: str) -> None:
    """A line on stderr, if anybody takes it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class Interrupted(BaseException):
    """Ctrl-C, under a name that no library takes for a reason to exit with a code of its own."""


def interruptible(run: Callable[[], None]) -> None:
    """Run; on Ctrl-C end as a program does that knows nothing of it, once everything is cleaned up."""
    import signal

    def stop(*_: object) -> None:
        raise Interrupted

    before = signal.getsignal(signal.SIGINT)  # ignored, where a shell runs it in the background
    try:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, stop)
        run()
    except (Interrupted, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)
