"""Where a plan's blocks hold nothing, group by group: which layers, how many bytes, growing or bounded, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kvplan.report import kinds
from kvplan.report.numbers import exact, number, plural, size
from kvplan.result import Group, Plan
from kvplan.spec import CacheLayer

EMPTY = "empty"
"""Block bytes that belong to no layer of the group; counted in groups."""
ROUNDING = "rounding"
"""Page bytes beyond what the layer stores; counted in layers."""

_MOST_PAGES = 64
"""Pages of a block that are still counted in words."""


class Waste(NamedTuple):
    """Groups or layers that waste the same bytes for the same reason."""

    what: str
    letters: str
    """Of the groups (EMPTY) or of the layers (ROUNDING)."""
    words: str
    """Kind of the layers."""
    unused_bytes: int
    """In one block of the group, or in one page of the layer."""
    whole_bytes: int
    """Of that block or page."""
    padding_pages: int
    pages: int
    """Pages that a block of the group has room for; 0 where pages differ in size."""
    block_size: int
    blocks_per_request: int
    grows: bool
    sharded: bool
    times: int = 1
    of: int = 1
    """Groups or layers of these letters in the plan."""

    @property
    def bytes_per_request(self) -> int:
        return self.times * self.unused_bytes * self.blocks_per_request

    @property
    def bytes_per_token(self) -> float:
        return self.times * self.unused_bytes / self.block_size


def wastes(plan: Plan, layers: Mapping[str, CacheLayer], dcp: int = 1) -> list[Waste]:
    """Every waste of the plan, the largest per request first. Equal ones are counted together.

    ``dcp``: decode context parallel size; a sharded block then stands for that many times its own tokens.
    """
    found: dict[Waste, int] = {}
    totals: dict[tuple[str, str], int] = {}
    for group in plan.groups:
        marks = [kinds.letter(n, layers[n].owner, layers[n].spec) for n in group.layers]
        letters = "".join(dict.fromkeys(marks))
        for key in ((EMPTY, letters), *((ROUNDING, mark) for mark in marks)):
            totals[key] = totals.get(key, 0) + 1
        for waste in (*_empty(group, letters, plan, layers), *_rounding(group, marks, plan, layers)):
            found[waste] = found.get(waste, 0) + 1
    out = [
        w._replace(times=n, of=totals[w.what, w.letters], block_size=w.block_size * (dcp if w.sharded else 1))
        for w, n in found.items()
    ]
    return sorted(out, key=lambda w: -w.bytes_per_request)


def _empty(group: Group, letters: str, plan: Plan, layers: Mapping[str, CacheLayer]) -> Iterator[Waste]:
    if not group.padding_bytes:
        return
    pages = {spec.page_size_bytes for spec in group.layer_specs}
    whole = len(pages) == 1 and group.padding_pages * pages.pop() == group.padding_bytes
    yield Waste(
        what=EMPTY,
        letters=letters,
        words=kinds.words(group.layers[0], layers[group.layers[0]].spec),
        unused_bytes=group.padding_bytes,
        whole_bytes=plan.bytes_per_block or 0,
        padding_pages=group.padding_pages,
        pages=len(group.layers) + group.padding_pages if whole else 0,
        block_size=group.block_size,
        blocks_per_request=group.blocks_per_request,
        grows=kinds.grows(group.spec),
        sharded=group.spec.dcp_sharded,
    )


def _rounding(group: Group, marks: list[str], plan: Plan, layers: Mapping[str, CacheLayer]) -> Iterator[Waste]:
    for name, mark, spec in zip(group.layers, marks, group.layer_specs, strict=True):
        page = kinds.occupied(spec, plan.layout)
        if page > spec.unpadded_page_size_bytes:
            yield Waste(
                what=ROUNDING,
                letters=mark,
                words=kinds.words(name, layers[name].spec),
                unused_bytes=page - spec.unpadded_page_size_bytes,
                whole_bytes=page,
                padding_pages=0,
                pages=0,
                block_size=group.block_size,
                blocks_per_request=group.blocks_per_request,
                grows=kinds.grows(group.spec),
                sharded=group.spec.dcp_sharded,
            )


def sentence(waste: Waste) -> str:
    """Which groups or layers, what is unused, how many bytes, and whether they grow: a sentence without full stop."""
    return f"{where(waste)}: {_how_much(waste)}"


def where(w: Waste) -> str:
    """Which groups or layers waste, and how much of what: ``2 of 4 F groups leave 1 of 3 pages empty``."""
    leave = "leaves" if w.times == 1 else "leave"
    if w.what == ROUNDING:
        layers = f"{plural(w.times, f'{w.letters} layer')} ({w.words})"
        return f"{layers} {leave} {size(w.unused_bytes)} of every {size(w.whole_bytes)} page unused"
    if w.of > w.times:
        groups = f"{w.times:,} of {plural(w.of, f'{w.letters} group')}"
    else:
        every = "both" if w.times == 2 else f"all {w.times:,}"
        groups = f"the {w.letters} group" if w.times == 1 else f"{every} {w.letters} groups"
    if 0 < w.pages <= _MOST_PAGES:
        return f"{groups} {leave} {w.padding_pages:,} of {w.pages:,} pages empty"
    return f"{groups} {leave} {size(w.unused_bytes)} of every {size(w.whole_bytes)} block empty"


def _how_much(w: Waste) -> str:
    if w.grows:
        return f"{per_token(w.bytes_per_token)}, grows with context; {size(w.bytes_per_request)} at full length"
    held = f"{plural(w.blocks_per_request, 'block')}{' each' if w.times > 1 else ''}"
    return f"{exact(w.bytes_per_request)} per request, bounded ({held})"


def per_token(n: float) -> str:
    """A slope: ``12 KiB (12,288 bytes) per token``; below 1 KiB in bytes alone."""
    return f"{number(n)} bytes per token" if n < 1024 else f"{size(n)} ({number(n)} bytes) per token"


def lines(plan: Plan, layers: Mapping[str, CacheLayer], dcp: int = 1, most: int = 6) -> list[str]:
    """The largest wastes of a plan as sentences without full stops, the small rest in one line."""
    found = wastes(plan, layers, dcp)
    total = sum(w.bytes_per_request for w in found)
    shown = [w for w in found[:most] if w.bytes_per_request * 200 >= total]
    out = [sentence(w) for w in shown]
    rest = found[len(shown) :]
    if rest:
        out.append(f"{len(rest):,} smaller: {size(sum(w.bytes_per_request for w in rest))} per request together")
    return out
