"""The compact form of goldens: equal specs once, layer names as templates, and positions as arithmetic runs.

``"0-10:2,4"`` stands for 0, 2, 4, 6, 8, 10, 4: runs of numbers in the order of the list, a run's step after the colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def runs(numbers: Sequence[int]) -> str:
    """Numbers as a text of runs; `numbers_in` reads it back."""
    out: list[str] = []
    i = 0
    while i < len(numbers):
        last, step = i, 0
        if i + 1 < len(numbers):
            step = numbers[i + 1] - numbers[i]
            while step > 0 and last + 1 < len(numbers) and numbers[last + 1] - numbers[last] == step:
                last += 1
        if last - i < 2:
            last = i
        suffix = f":{step}" if step != 1 else ""
        out.append(str(numbers[i]) if last == i else f"{numbers[i]}-{numbers[last]}{suffix}")
        i = last + 1
    return ",".join(out)


def numbers_in(text: str) -> list[int]:
    """The numbers that `runs` wrote."""
    out: list[int] = []
    for run in filter(None, text.split(",")):
        span, _, step = run.partition(":")
        first, _, last = span.partition("-")
        out += range(int(first), int(last or first) + 1, int(step or 1))
    return out


def fold_layers(layers: Iterable[tuple[str, dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Named rows as distinct rows, and where they stand: ``{"name", "numbers", "at", "spec"}``.

    ``name`` is a template with ``{}`` for the layer's number, ``numbers`` and ``at`` are runs of equal length, and
    ``spec`` is the index of the row.
    """
    rows: list[dict[str, Any]] = []
    places: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for position, (name, row) in enumerate(layers):
        if row not in rows:
            rows.append(row)
        found = _NUMBER.search(name)
        template = name if found is None else name[: found.start()] + "{}" + name[found.end() :]
        numbers, at = places.setdefault((template, rows.index(row)), ([], []))
        numbers.append(0 if found is None else int(found[0]))
        at.append(position)
    folded = [
        {"name": template, "numbers": runs(numbers), "at": runs(at), "spec": spec}
        for (template, spec), (numbers, at) in places.items()
    ]
    return rows, folded


def unfold_layers(rows: Sequence[dict[str, Any]], folded: Iterable[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The named rows that `fold_layers` folded, in order."""
    placed = [
        (at, place["name"].replace("{}", str(number)), rows[place["spec"]])
        for place in folded
        for number, at in zip(numbers_in(place["numbers"]), numbers_in(place["at"]), strict=True)
    ]
    return [(name, row) for _, name, row in sorted(placed, key=lambda item: item[0])]


def fold_plans(plans: dict[str, dict[str, Any]], names: Sequence[str], first: str) -> dict[str, dict[str, Any]]:
    """Plans with layers as runs of positions; each but ``first`` as what differs from it (null: no such field)."""
    position = {name: i for i, name in enumerate(names)}
    whole = {}
    for grouping, plan in plans.items():
        groups = [{**group, "layers": runs([position[name] for name in group["layers"]])} for group in plan["groups"]]
        whole[grouping] = {**plan, "groups": groups}
    base = whole[first]
    out = {first: base}
    for grouping, plan in whole.items():
        if grouping != first:
            fields = {**dict.fromkeys(base), **plan}
            out[grouping] = {key: value for key, value in fields.items() if value != base.get(key)}
    return out


def unfold_plans(plans: dict[str, dict[str, Any]], names: Sequence[str], first: str) -> dict[str, dict[str, Any]]:
    """The plans that `fold_plans` folded; fields that a plan does not have are left out."""
    out = {}
    for grouping, plan in plans.items():
        merged = {**plans[first], **plan}
        merged = {key: value for key, value in merged.items() if value is not None}
        groups = [{**group, "layers": [names[i] for i in numbers_in(group["layers"])]} for group in merged["groups"]]
        out[grouping] = {**merged, "groups": groups}
    return out
