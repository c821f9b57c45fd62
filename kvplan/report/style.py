"""How a report is drawn: its width, its characters and its colours. The reports decide what stands where, this how.

A report asks for a colour by role and never by code. `PLAIN` gives every text back unchanged; `ansi` colours it for a
terminal. The caller chooses: a report knows no terminal and no environment.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

from kvplan.report.lines import wrap

Paint = Callable[[str, str], str]
"""``paint(role, text)``: roles are title, good, bad, used, growing and bounded."""


def PLAIN(role: str, text: str) -> str:
    """The text itself: for files, pipes and NO_COLOR."""
    return text


_CODES = {
    "title": "1",
    "good": "1;32",
    "bad": "1;31",
    "used": "1",
    "growing": "31",
    "bounded": "33",
}


def ansi(role: str, text: str) -> str:
    """The text in the role's colour, for a terminal."""
    return f"\x1b[{_CODES[role]}m{text}\x1b[0m"


class Glyphs(NamedTuple):
    """The characters of the drawings."""

    growing: str
    """A page that no layer uses, in a group that grows with context."""
    bounded: str
    """The same in a group that does not grow."""
    bar: str
    ellipsis: str


UNICODE = Glyphs("▓", "░", "│", "…")
ASCII = Glyphs("#", ".", "|", "~")


class View(NamedTuple):
    """What a report needs to know of the place where it will be read."""

    width: int = 80
    """Columns; less than 60 is drawn as 60."""
    glyphs: Glyphs = UNICODE
    paint: Paint = PLAIN

    @property
    def columns(self) -> int:
        return max(60, self.width)

    def padding(self, line: str) -> str:
        """A line of a drawing with its padding in colour."""
        roles = {self.glyphs.growing: "growing", self.glyphs.bounded: "bounded"}
        runs = ((mark, "".join(run)) for mark, run in groupby(line))
        return "".join(self.paint(roles[mark], run) if mark in roles else run for mark, run in runs)

    def titled(self, title: str, lines: list[str]) -> list[str]:
        """A section: its title and its lines; nothing where it has none."""
        return [*(self.paint("title", line) for line in wrap(title, self.columns)), *lines] if lines else []


VIEW = View()
