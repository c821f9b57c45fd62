"""What a command ends with."""

from __future__ import annotations

from typing import NamedTuple

FITS = 0
DOES_NOT_FIT = 1


class Outcome(NamedTuple):
    """The text for stdout (or the output file) and the exit code."""

    text: str
    exit_code: int = FITS
    diagnostics: tuple[str, ...] = ()
    """Lines for stderr."""
