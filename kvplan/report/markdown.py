"""`kvplan plan --format markdown`: short enough for a pull-request comment, the details folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvplan.report import costs, diagram, padding
from kvplan.report.decision import decide, stages_words
from kvplan.report.numbers import number, percent, size
from kvplan.report.text import grouping_row, same_plan
from kvplan.result import Plan, Result

if TYPE_CHECKING:
    from kvplan.advice import Advice
    from kvplan.budget import Sized

_HEAD = ("grouping", "layout", "groups", "block", "growing padding", "blocks per request", "request", "tokens")


def plan_markdown(result: Result, advice: Advice | None = None, sized: Sized | None = None) -> str:
    """The decision and one table of the groupings; folded: groups, padding, the cost of a request, layout, options."""
    parts = [
        f"**{escape(decide(result, sized).sentence)}**",
        table(_HEAD, [_row(name, plan, name == result.selected) for name, plan in result.plans.items()], right=2),
        _legend(result),
        folded("Groups and padding", _groups(result)),
        folded(f"What one request holds ({result.selected})", _request(result)),
        folded("Layout", _layout(result)),
        folded("Try (planned, speed not judged)", bullets(_advice(advice))),
        folded("Options", _options(result)),
        *([folded("Notes", bullets(notes))] if (notes := _notes(result)) else []),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _advice(advice: Advice | None) -> list[str]:
    if advice is None:
        return []
    from kvplan.report.advice_text import advice_words

    return [advice_words(advice)]


def escape(text: str) -> str:
    """Text as Markdown shows it, whatever characters it holds."""
    for mark in "\\`*_|[]":
        text = text.replace(mark, "\\" + mark)
    return text.replace("<", "&lt;").replace("\n", " ")


def code(text: str) -> str:
    """A name as code: no character of it is read as Markdown, not even inside a table."""
    return f"`{text.replace('`', '').replace('|', '/').replace(chr(10), ' ')}`"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: int) -> str:
    """A table whose columns from number ``right`` on are aligned right. Cells are Markdown already."""
    rule = [":--" if i < right else "--:" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def folded(title: str, body: str) -> str:
    """A part that is shown on a click; nothing for an empty body."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>" if body else ""


def bullets(lines: Sequence[str]) -> str:
    """A list, one line an item."""
    return "\n".join(f"- {escape(line)}" for line in lines)


def _legend(result: Result) -> str:
    spread = stages_words(result.plans[result.selected])
    sums = f" Sizes of blocks and requests are sums{spread}, of one rank of each." if spread else ""
    length = number(_length(result))
    return f"A request is one of {length} tokens; the grouping in bold is the one that the engine uses.{sums}"


def _length(result: Result) -> int:
    return result.plans[result.selected].max_model_len or result.config.max_model_len


def _row(name: str, plan: Plan, used: bool) -> list[str]:
    cells = [escape(cell) for cell in grouping_row(name, plan, used)[1:]]
    return [f"**{name}**" if used else name, *cells]


def _groups(result: Result) -> str:
    layers = {layer.name: layer for layer in result.layers}
    drawn: list[Plan] = []
    lines: list[str] = []
    for name, plan in result.plans.items():
        if not plan.groups or any(same_plan(plan, other) for other in drawn):
            continue
        drawn.append(plan)
        words = diagram.legend(plan, layers)
        lines += [diagram.title(name, plan), *diagram.draw(plan, layers), *([f"({words})"] if words else []), ""]
    if not drawn:
        return ""
    drawing = "```text\n" + "\n".join(lines).rstrip() + "\n```"
    found = padding.lines(result.plans[result.selected], layers, result.config.decode_context_parallel_size)
    return f"{drawing}\n\n{bullets(found)}" if found else drawing


def _request(result: Result) -> str:
    plan = result.plans[result.selected]
    cost = plan.request_cost
    if cost is None or not plan.groups:
        return ""
    total = sum(cost.at_max_model_len.values()) or 1
    holder = costs.Holder(plan, {layer.name: layer for layer in result.layers}, result.options())
    rows = [
        [costs.name(key, holder), size(n), percent(n / total), escape(costs.describe(key, holder))]
        for n, key in sorted(((n, key) for key, n in cost.at_max_model_len.items() if n), reverse=True)
    ]
    line = f"{costs.line(cost, _length(result))}; at {number(_length(result))} tokens {size(total)}."
    return line + "\n\n" + table(("category", "size", "share", "what"), rows, right=9)


def _layout(result: Result) -> str:
    layout = result.layout
    lines = [f"{code(layout.name)}, of {', '.join(code(name) for name in layout.candidates)}"]
    lines += [f"- {'yes' if r.holds else 'no'}: {escape(r.condition)}: {escape(r.why)}" for r in layout.reasons]
    return "\n\n".join([lines[0], "\n".join(lines[1:])]).rstrip()


def _options(result: Result) -> str:
    rows = [[code(name), code(_value(value))] for name, value in result.options().items()]
    return table(("option", "value"), rows, right=9)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _notes(result: Result) -> list[str]:
    return list(dict.fromkeys([*result.notes, *result.config.notes, *result.plans[result.selected].notes]))
