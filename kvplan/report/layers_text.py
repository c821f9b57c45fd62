"""`kvplan layers` as text: what every layer caches, equal layers together, and on request what decided it."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.report import kinds
from kvplan.report.decision import assumed_words, engine_words, gpus
from kvplan.report.lines import Column, table, wrap
from kvplan.report.numbers import plural, size
from kvplan.report.style import VIEW, View
from kvplan.result import Result
from kvplan.spec import MultipleOf, StateSpec

_COLUMNS = (
    Column("", right=False, keep=9),
    Column("layers", keep=9),
    Column("what they cache", right=False, keep=9, elastic=True),
    Column("heads x size", right=False, keep=9, elastic=True),
    Column("dtype", right=False, keep=7),
    Column("block", keep=9),
    Column("page", keep=9),
    Column("stored", keep=8),
)


def layers_text(result: Result, view: View = VIEW, *, explain: bool = False) -> str:
    """The table of cache specs, one row for equal layers, with names, backend and kernel blocks under each.

    ``explain`` adds the config field that decided the row and the vLLM file that reads it.
    """
    out = [view.paint("used", line) for line in wrap(headline(result), view.columns)]
    folds = kinds.fold(result.layers)
    if not folds:
        return "\n".join(out) + "\n"
    lines = table(_COLUMNS, [_row(fold, result) for fold in folds], view.columns, view.glyphs.ellipsis, indent="")
    out += ["", view.paint("title", lines[0])]
    for fold, line in zip(folds, lines[1:], strict=True):
        out.append(view.paint("used", line))
        for words in _details(fold, explain=explain):
            out += wrap(words, view.columns, "   ", "     ")
    return "\n".join(out) + "\n"


def headline(result: Result) -> str:
    """Whose layers they are, and under which engine."""
    where = f"{engine_words(result.engine)} on {gpus(result)}{assumed_words(result.assumed)}"
    return f"{model_words(result)}: {plural(len(result.layers), 'layer')} with a cache under {where}."


def model_words(result: Result) -> str:
    """The model, and the drafter with its method."""
    drafter = "" if result.drafter is None else f" with {result.drafter.id} ({result.drafter.method})"
    return f"{result.model.id}{drafter}"


def layers_markdown(result: Result, *, explain: bool = False) -> str:
    """The table as Markdown, a row for equal layers; names, backends and kernel blocks folded under it."""
    from kvplan.report.markdown import escape, folded
    from kvplan.report.markdown import table as table_of

    folds = kinds.fold(result.layers)
    rows = [[escape(cell) for cell in _row(fold, result)] for fold in folds]
    details = "\n".join(
        f"- {escape(fold.letter)}: {'; '.join(escape(words) for words in _details(fold, explain=explain))}"
        for fold in folds
    )
    head = [column.title for column in _COLUMNS]
    parts = [
        f"**{escape(headline(result))}**",
        table_of(head, rows, right=5) if rows else "",
        folded("Layers", details),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(fold: kinds.Fold, result: Result) -> tuple[str, ...]:
    spec = fold.first.spec
    stored, page = spec.unpadded_page_size_bytes, spec.page_size_bytes
    return (
        fold.letter,
        f"{len(fold.layers):,}",
        ("drafter " if fold.owner == "drafter" else "") + fold.words,
        kinds.heads(spec),
        kinds.dtypes(spec),
        kinds.block(spec, result.config.max_model_len),
        size(page),
        "" if stored == page else size(stored),
    )


def _details(fold: kinds.Fold, *, explain: bool) -> list[str]:
    layer = fold.first
    kernel = "" if isinstance(layer.spec, StateSpec) else f", kernel blocks: {sizes(layer.kernel_block_sizes)}"
    out = [*names([each.name for each in fold.layers]), layer.backend + kernel]
    if explain:
        for why in dict.fromkeys(each.why for each in fold.layers):
            field, file = why
            out.append(f"because {field}: {file}" if field and file else f"because {field or file or 'of its class'}")
        for name, reasons in dict.fromkeys(passed for each in fold.layers for passed in each.passed_over):
            out.append(f"passed over: {name}, which {' and '.join(reasons)}")
    return out


def sizes(kernel: Sequence[int | MultipleOf]) -> str:
    """Kernel block sizes in words: ``16, 32, 64 tokens``; ``any multiple of 16 tokens``."""
    if not kernel:
        return "none"
    return ", ".join(f"any multiple of {s.base}" if isinstance(s, MultipleOf) else str(s) for s in kernel) + " tokens"


def names(layers: Sequence[str]) -> list[str]:
    """vLLM's layer names, those that differ in one number as one: ``model.layers.{0-2, 4-6}.self_attn.attn``."""
    patterns: dict[tuple[str, str], list[int]] = {}
    for name in layers:
        before, index, after = _indexed(name)
        patterns.setdefault((before, after), []).append(index)
    return [
        before + after if indices == [-1] else f"{before}{_ranges(indices)}{after}"
        for (before, after), indices in patterns.items()
    ]


def _indexed(name: str) -> tuple[str, int, str]:
    """The name before its first whole number, the number (-1: none), and the name after it."""
    parts = name.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdecimal() and part.isascii() and len(part) < 9), None)
    if at is None:
        return name, -1, ""
    before, after = ".".join(parts[:at]), ".".join(parts[at + 1 :])
    return (before + "." if before else ""), int(parts[at]), ("." + after if after else "")


def _ranges(indices: Sequence[int]) -> str:
    """``7``; ``{0-2, 4-6}``."""
    runs: list[list[int]] = []
    for index in sorted(set(indices)):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    if len(runs) == 1 and runs[0][0] == runs[0][1]:
        return str(runs[0][0])
    return "{" + ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) + "}"
