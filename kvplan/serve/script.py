"""What reading a script gives: its commands, the files that it writes, and the dialect that it is written in."""

import re
from typing import NamedTuple

from kvplan.serve.words import CMD, POWERSHELL, SH, Dialect


class Command(NamedTuple):
    """One simple command."""

    words: list[str]
    env: dict[str, str]  # exported so far, and its own prefix
    forgotten: list[str]  # first flags of lines that follow without a line continuation


class Script(NamedTuple):
    """What a text runs, and the files that it writes with heredocs."""

    commands: list[Command]
    files: dict[str, str]
    fed: list[str]
    """Bodies of heredocs that no file takes: what a shell, kubectl or ssh reads."""


class Heredoc(NamedTuple):
    """A heredoc whose body is still to come."""

    delimiter: str
    tabs: bool
    literal: bool
    redirects: list[str]  # where the command's output goes, filled by the time the body is read
    words: list[str]


def dialect_of(text: str) -> Dialect:
    """The dialect, from how lines are continued, else from Windows paths."""
    if re.search(r"\\\n", text):
        return SH
    if re.search(r"\^[ \t]*\n", text):
        return CMD
    if re.search(r"(?<!`)`[ \t]*\n", text) or "$env:" in text:
        return POWERSHELL
    if re.search(r"(?im)(^|[\s\"'=])[a-z]:\\\w", text):
        return POWERSHELL if "'" in text else CMD
    return SH
