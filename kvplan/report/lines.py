"""Paragraphs and tables that never exceed a width. Widths count characters: every glyph used is one column wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


def wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """The text in lines of at most ``width`` columns, ``first`` before the first and ``rest`` before the others.

    Breaks at spaces; a word that is longer than a line is cut.
    """
    rest = " " * len(first) if rest is None else rest
    out: list[str] = []
    line, empty = first, True
    for word in _words(text):
        if not empty and len(line) + 1 + len(word) > width:
            out.append(line)
            line, empty = rest, True
        line = line + word if empty else f"{line} {word}"
        empty = False
        while len(line) > width:
            out.append(line[:width])
            line = rest + line[width:]
    out.append(line.rstrip())
    return out


_UNITS = frozenset({"B", "KiB", "MiB", "GiB", "%"})


def _words(text: str) -> list[str]:
    """The words of a text, a number and its unit as one."""
    out: list[str] = []
    for word in text.split():
        if out and word.rstrip(".,;:)") in _UNITS:
            out[-1] += f" {word}"
        else:
            out.append(word)
    return out


def clip(text: str, width: int, ellipsis: str) -> str:
    """The text, cut to ``width`` with an ellipsis where it is longer."""
    return text if len(text) <= width else text[: max(0, width - 1)] + ellipsis


class Column(NamedTuple):
    """One column of a table."""

    title: str
    right: bool = True
    keep: int = 0
    """Columns with the smallest number are left out first where the table is too wide."""
    elastic: bool = False
    """Whether its cells may be cut, with an ellipsis, once no column can be left out."""


def fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, indent: str = "  ") -> list[int]:
    """The columns that `table` shows in this width: those whose cells are not all empty, less the least important."""
    shown = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    highest = max((columns[i].keep for i in shown), default=0)

    def over() -> bool:
        return len(indent) + sum(_widths(columns, rows, shown)) + 2 * (len(shown) - 1) > width

    while over() and any(columns[i].keep < highest for i in shown):
        shown.remove(min(shown, key=lambda i: columns[i].keep))
    return shown


def titles(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, indent: str = "  ") -> frozenset[str]:
    """The titles of the columns that `table` shows, for a legend that explains no other."""
    return frozenset(columns[i].title for i in fitting(columns, rows, width, indent))


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], shown: Sequence[int]) -> list[int]:
    return [max(len(columns[i].title), *(len(row[i]) for row in rows)) for i in shown]


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    ellipsis: str,
    indent: str = "  ",
) -> list[str]:
    """Header and rows in aligned columns, two spaces apart.

    Too wide: columns whose ``keep`` is below the highest are left out, the least important first; then elastic
    columns are cut. Columns whose cells are all empty are left out always.
    """
    shown = fitting(columns, rows, width, indent)
    sizes = _widths(columns, rows, shown)
    over = len(indent) + sum(sizes) + 2 * (len(shown) - 1) - width
    for at, i in enumerate(shown):
        if over > 0 and columns[i].elastic:
            cut = min(over, max(0, sizes[at] - 6))
            sizes[at] -= cut
            over -= cut

    def line(cells: Sequence[str]) -> str:
        parts = []
        for at, i in enumerate(shown):
            cell = clip(cells[i], sizes[at], ellipsis)
            parts.append(cell.rjust(sizes[at]) if columns[i].right else cell.ljust(sizes[at]))
        return clip((indent + "  ".join(parts)).rstrip(), width, ellipsis)

    return [line([c.title for c in columns]), *(line(row) for row in rows)]
