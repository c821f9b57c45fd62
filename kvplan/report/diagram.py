"""Drawings of a plan's groups: which layers share a block table, and which bytes of a block no layer uses.

Uniform pages: one bracket is one group, one character one page. Packed blocks: one row is one group's block, and all
rows have the width of the block, so that what stands empty can be seen. Upper case is the target, lower case the
drafter. Every drawing fits its width: equal groups are counted instead of repeated, lines fold, cells are scaled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple

from kvplan.report import kinds
from kvplan.report.lines import clip
from kvplan.report.numbers import plural, size
from kvplan.report.style import VIEW, View
from kvplan.result import Group, Plan
from kvplan.spec import CacheLayer

_MOST_LITERAL = 12
"""Pages of a group that are still drawn one by one."""
_MOST_REPEATED = 4
"""Equal groups in a row that are still drawn one by one."""
_CELL = 4
"""Columns of the smallest page in a packed drawing, its bar included, where there is room."""


class Page(NamedTuple):
    """One layer's page in a block of its group."""

    letter: str
    bytes: int


class Row(NamedTuple):
    """One group as it is drawn."""

    letters: str
    """Each letter of the group once, in order."""
    pages: tuple[Page, ...]
    idle_bytes: int
    """Bytes of the block that no layer of the group uses."""
    padding_pages: int
    grows: bool
    eagle: bool


def rows(plan: Plan, layers: Mapping[str, CacheLayer]) -> list[Row]:
    """The plan's groups as rows, in the engine's order."""
    return [_row(group, plan.layout, layers) for group in plan.groups]


def _row(group: Group, layout: str, layers: Mapping[str, CacheLayer]) -> Row:
    pages = tuple(
        Page(kinds.letter(name, layers[name].owner, layers[name].spec), kinds.occupied(spec, layout))
        for name, spec in zip(group.layers, group.layer_specs, strict=True)
    )
    return Row(
        letters="".join(dict.fromkeys(page.letter for page in pages)),
        pages=pages,
        idle_bytes=group.padding_bytes,
        padding_pages=group.padding_pages,
        grows=kinds.grows(group.spec),
        eagle=group.is_eagle_group,
    )


def is_packed(plan: Plan) -> bool:
    """Whether the plan's pages differ in size, so that its block is drawn to scale."""
    return len(_page_sizes(plan)) > 1


def _page_sizes(plan: Plan) -> set[int]:
    return {kinds.occupied(spec, plan.layout) for spec in {s for g in plan.groups for s in g.layer_specs}}


def title(name: str, plan: Plan) -> str:
    """What the drawing shows, in the form ``uniform: group size 3, 17 groups, block 7.5 MiB``."""
    parts = []
    if plan.group_size is not None and not is_packed(plan) and len(plan.groups) > 1:
        parts.append(f"group size {plan.group_size:,}")
    parts.append(plural(len(plan.groups), "group"))
    if plan.bytes_per_block is not None:
        parts.append(f"block{_unit_words(plan)} {size(plan.bytes_per_block)}")
    return f"{name}: {', '.join(parts)}"


def _unit_words(plan: Plan) -> str:
    """``= 12 pages of 1.25 MiB =`` where the block is a whole number of its smallest page, else nothing."""
    unit = _unit(plan)
    smallest = min(_page_sizes(plan), default=0)
    total = plan.bytes_per_block or 0
    if not is_packed(plan) or unit != smallest or total == unit:
        return ""
    return f" = {total // unit:,} pages of {size(unit)} ="


def _unit(plan: Plan) -> int:
    """The largest size in bytes of which every page and the block are whole multiples."""
    return gcd(plan.bytes_per_block or 0, *_page_sizes(plan))


def draw(plan: Plan, layers: Mapping[str, CacheLayer], view: View = VIEW) -> list[str]:
    """The drawing of the plan's groups in lines of at most ``view.columns``; nothing where it has no groups."""
    found = rows(plan, layers)
    if not found:
        return []
    return _packed(plan, found, view) if is_packed(plan) else _uniform(found, view)


def legend(plan: Plan, layers: Mapping[str, CacheLayer], view: View = VIEW) -> str:
    """The padding glyphs and marks that the drawing uses, in words; empty where it uses none."""
    found = rows(plan, layers)
    glyphs = view.glyphs
    words = []
    if any(row.grows and (row.idle_bytes or row.padding_pages) for row in found):
        words.append(f"{glyphs.growing} empty and grows with context")
    if any(not row.grows and (row.idle_bytes or row.padding_pages) for row in found):
        words.append(f"{glyphs.bounded} empty but bounded")
    if any(row.eagle for row in found):
        words.append("eagle: a prefix-cache hit drops its last block")
    return ", ".join(words)


# Uniform pages: [FFF][FF▓] x4


def _uniform(found: Sequence[Row], view: View) -> list[str]:
    label_width = max(2, *(len(row.letters) for row in found))
    out: list[str] = []
    for bucket in _buckets(found):
        label = bucket[0].letters.ljust(label_width) + " "
        mark = " eagle" if bucket[0].eagle else ""
        out += _fold(_counted([_bracket(row, view) for row in bucket]), label, mark, view.columns)
    return out


def _buckets(found: Sequence[Row]) -> list[list[Row]]:
    """Neighbouring groups of the same kinds of layers with equal pages."""
    out: list[list[Row]] = []
    for row in found:
        if out and out[-1][0].letters == row.letters and out[-1][0].eagle == row.eagle:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def _bracket(row: Row, view: View) -> str:
    """One group: its pages letter by letter, or counted where there are many."""
    glyph = view.glyphs.growing if row.grows else view.glyphs.bounded
    letters = [page.letter for page in row.pages] + [glyph] * row.padding_pages
    if len(letters) <= _MOST_LITERAL:
        return f"[{''.join(letters)}]"
    counts = {mark: letters.count(mark) for mark in dict.fromkeys(letters)}
    return "[" + ", ".join(f"{n:,} {mark}" for mark, n in counts.items()) + "]"


def _counted(pieces: Sequence[str]) -> list[str]:
    """Runs of more than a few equal groups as one group and its count."""
    out: list[str] = []
    at = 0
    while at < len(pieces):
        end = at
        while end < len(pieces) and pieces[end] == pieces[at]:
            end += 1
        run = end - at
        out += [f"{pieces[at]} x{run:,} "] if run > _MOST_REPEATED else list(pieces[at:end])
        at = end
    return out


def _fold(pieces: Sequence[str], label: str, mark: str, width: int) -> list[str]:
    """The label and the pieces after it, folded between pieces."""
    out: list[str] = []
    line = label
    for piece in [*pieces, mark]:
        if len(line) > len(label) and len(line) + len(piece.rstrip()) > width:
            out.append(line.rstrip())
            line = " " * len(label)
        line += piece
    out.append(line.rstrip())
    return out


# Packed blocks: full x1 │ F │ F │   f   │


def _packed(plan: Plan, found: Sequence[Row], view: View) -> list[str]:
    counts: dict[Row, int] = {}
    for row in found:
        counts[row] = counts.get(row, 0) + 1
    names = [kinds.short(_widest(row)) for row in counts]
    name_width = max(len(name) for name in names)
    count_width = max(len(f"x{n:,}") for n in counts.values())
    marks = [" eagle" if row.eagle else "" for row in counts]
    space = view.columns - name_width - count_width - 2 - max(len(mark) for mark in marks)
    unit, total = _unit(plan), plan.bytes_per_block or 0
    cell = min(_CELL, (space - 1) // max(1, total // unit)) if total else 0
    out = []
    for name, mark, (row, n) in zip(names, marks, counts.items(), strict=True):
        body = _cells(row, unit, cell, view) if cell >= 2 else _segments(row, space, view)
        out.append(f"{name.ljust(name_width)} {f'x{n:,}'.ljust(count_width)} {body}{mark}".rstrip())
    return out


def _widest(row: Row) -> str:
    """The letter whose pages take most of the group's block."""
    return max(row.letters, key=lambda mark: sum(page.bytes for page in row.pages if page.letter == mark))


def _cells(row: Row, unit: int, cell: int, view: View) -> str:
    """Every page a cell as wide as its share of the block; what is empty in cells of the smallest unit."""
    bar = view.glyphs.bar
    glyph = view.glyphs.growing if row.grows else view.glyphs.bounded
    cells = [page.letter.center(page.bytes // unit * cell - 1) for page in row.pages]
    cells += [glyph.center(cell - 1)] * (row.idle_bytes // unit)
    return bar + bar.join(cells) + bar


def _segments(row: Row, space: int, view: View) -> str:
    """Equal pages counted in one segment, segments as wide as their share of the block where their label fits."""
    bar = view.glyphs.bar
    totals: dict[Page, int] = {}
    for page in row.pages:
        totals[page] = totals.get(page, 0) + 1
    labels = [f"{n:,} {page.letter}" for page, n in totals.items()]
    shares = [page.bytes * n for page, n in totals.items()]
    if len(labels) > (most := space // 9):
        labels[most:] = [f"{sum(list(totals.values())[most:]):,} more"]
        shares[most:] = [sum(shares[most:])]
    if row.idle_bytes:
        labels.append("")
        shares.append(row.idle_bytes)
    widths = _widths(shares, [max(1, len(label)) for label in labels], space - len(labels) - 1)
    parts = [
        clip(label, width, view.glyphs.ellipsis).center(width) for label, width in zip(labels, widths, strict=True)
    ]
    if row.idle_bytes:
        parts[-1] = (view.glyphs.growing if row.grows else view.glyphs.bounded) * widths[-1]
    return bar + bar.join(parts) + bar


def _widths(shares: Sequence[int], least: Sequence[int], space: int) -> list[int]:
    """Whole widths in proportion to ``shares`` that add up to ``space``, none below ``least`` while that fits."""
    whole = sum(shares)
    widths = [max(low, share * space // whole) for share, low in zip(shares, least, strict=True)]
    while (over := sum(widths) - space) != 0:
        if over < 0:
            at = max(range(len(widths)), key=lambda i: shares[i] * space / whole - widths[i])
            widths[at] += 1
        else:
            at = max(range(len(widths)), key=lambda i: (widths[i] - least[i], widths[i]))
            if widths[at] == 1:
                break
            widths[at] -= 1
    return widths
