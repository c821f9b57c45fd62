"""`kvplan compare` as text: one table over drafters and groupings, and under it the causes of every change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.comparison import Comparison, Entry, bytes_per_request, unchanged
from kvplan.report import changes, costs
from kvplan.report.decision import assumed_words, engine_words, error_words, gpu_words
from kvplan.report.lines import Column, table, titles, wrap
from kvplan.report.numbers import concurrency, gib, number, percent, plural, signed_size, size
from kvplan.report.style import VIEW, View
from kvplan.report.text import growing


def compare_text(comparison: Comparison, view: View = VIEW) -> str:
    """The whole comparison in lines of at most ``view.columns``, with a newline at its end."""
    sections = [
        [view.paint("used", line) for line in wrap(headline(comparison), view.columns)],
        _table(comparison, view),
        *(_causes(comparison.baseline, entry, view) for entry in comparison.variants),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def label(entry: Entry) -> str:
    """The deployment in a few words: ``no drafter``, ``z-lab/X (dflash), 7 tokens``, ``built-in mtp, 1 token``."""
    drafter = entry.deployment.drafter
    if entry.deployment.name:
        return entry.deployment.name
    if drafter is None:
        return "no drafter"
    tokens = plural(drafter.num_speculative_tokens, "token")
    if drafter.id == entry.deployment.model or not drafter.id:
        return f"built-in {drafter.method}, {tokens}"
    return f"{drafter.id} ({drafter.method}), {tokens}"


def with_label(entry: Entry) -> str:
    """``without a drafter``, ``with z-lab/X (dflash), 7 tokens``, or a document's name after "in"."""
    if entry.deployment.name:
        return f"in {entry.deployment.name}"
    return "without a drafter" if entry.deployment.drafter is None else f"with {label(entry)}"


def headline(comparison: Comparison) -> str:
    """What the change costs where the engine really runs, in one sentence."""
    base = comparison.baseline
    engine = f"{engine_words(base.deployment.engine)} on {_gpus(comparison)}"
    model, plan = base.deployment.model, base.deployment.plan
    length = number(plan.max_model_len or 0)
    if plan.error:
        start = f"{model} does not start {with_label(base)} under {engine} ({error_words(plan.error).rstrip('.')})"
    elif plan.max_concurrency is not None:
        start = (
            f"{model} under {engine} holds {concurrency(plan.max_concurrency)} requests of {length} tokens "
            f"({number(plan.kv_cache_size_tokens or 0)} tokens) {with_label(base)}"
        )
    else:
        start = (
            f"One request of {length} tokens of {model} takes {size(bytes_per_request(plan) or 0)} "
            f"under {engine} {with_label(base)}"
        )
    return f"{start}; {'; '.join(_outcomes(base, comparison.variants))}."


def _outcomes(base: Entry, entries: Sequence[Entry]) -> Iterator[str]:
    """``z-lab/X (dflash), 3 tokens: -27.8 %``; further draft lengths of the same drafter without its name."""
    last = None
    for entry in entries:
        name, comma, tokens = label(entry).rpartition(", ")
        again = bool(comma) and not entry.deployment.name and name == last
        yield f"{tokens if again else label(entry)}: {outcome(base, entry)}"
        last = name


def _gpus(comparison: Comparison) -> str:
    """The GPUs of the baseline, with everything that was assumed for any of the deployments."""
    options = comparison.baseline.deployment.options
    entries = (comparison.baseline, *comparison.variants)
    assumed = dict.fromkeys(text for entry in entries for text in entry.deployment.assumed)
    return gpu_words(options.get("gpu"), options) + assumed_words(list(assumed))


def is_same(base: Entry, entry: Entry) -> bool:
    """Whether two deployments have the same plans, group by group."""
    return base.deployment.plans == entry.deployment.plans and base.deployment.selected == entry.deployment.selected


def outcome(base: Entry, entry: Entry) -> str:
    """The change in a few words: ``-31.1 %``, ``does not start``, ``the same plan``; and what else than it differs."""
    if is_same(base, entry):
        return "the same plan"
    if entry.deployment.plan.error:
        return "does not start"
    if entry.change is not None:
        return percent(entry.change, sign=True) + _otherwise(base, entry)
    return f"not comparable{_without_budget(base, entry)}{_otherwise(base, entry)}"


def _without_budget(base: Entry, entry: Entry) -> str:
    """The side that has no tokens, where only one has."""
    bare = [side for side in (base, entry) if side.deployment.plan.kv_cache_size_tokens is None]
    if len(bare) != 1 or bare[0].deployment.plan.error:
        return ""
    return f", as no KV budget was given {with_label(bare[0])}"


def _otherwise(base: Entry, entry: Entry) -> str:
    """What makes two deployments others than one with and without a drafter: model, length and budget."""
    before, after = base.deployment, entry.deployment
    told = [] if after.model == before.model else [after.model]
    if after.plan.max_model_len != before.plan.max_model_len and after.plan.max_model_len is not None:
        told.append(f"requests of {number(after.plan.max_model_len)} tokens")
    budget = after.options.get("kv_cache_memory_bytes")
    if entry.change is not None and budget != before.options.get("kv_cache_memory_bytes") and isinstance(budget, int):
        told.append(f"{gib(budget)} of KV cache")
    return f" ({', '.join(told)})" if told else ""


_COLUMNS = (
    Column("  grouping", right=False, keep=9),
    Column("layout", right=False, keep=2),
    Column("groups", keep=5),
    Column("block", keep=7),
    Column("growing", keep=4),
    Column("blocks/req", keep=6),
    Column("request", keep=3),
    Column("tokens", keep=9),
    Column("change", keep=9),
)


def _table(comparison: Comparison, view: View) -> list[str]:
    entries = [comparison.baseline, *comparison.variants]
    rows = [cells for entry in entries for cells in _rows(entry, entry is comparison.baseline)]
    lines = table(_COLUMNS, rows, view.columns, view.glyphs.ellipsis, indent="")
    out, at = [lines[0]], 1
    for entry in entries:
        out += [view.paint("title", line) for line in wrap(label(entry), view.columns)]
        for row, line in zip(entry.rows, lines[at:], strict=False):
            out.append(view.paint("used", line) if row.used else line)
        at += len(entry.rows)
    shown = titles(_COLUMNS, rows, view.columns, indent="")
    return [*out, *wrap(_legend(comparison, shown), view.columns), *_errors(comparison, view)]


def _rows(entry: Entry, is_baseline: bool) -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = []
    for row in entry.rows:
        plan = row.plan
        tokens = "no start" if plan.error else ""
        if not plan.error and plan.kv_cache_size_tokens is not None:
            tokens = number(plan.kv_cache_size_tokens)
        out.append(
            (
                f"{'*' if row.used else ' '} {row.grouping}",
                plan.layout,
                number(len(plan.groups)) if plan.groups else "",
                "" if plan.bytes_per_block is None else size(plan.bytes_per_block),
                growing(plan),
                "" if plan.blocks_per_request is None else number(plan.blocks_per_request),
                "" if row.bytes_per_request is None else size(row.bytes_per_request),
                tokens,
                "" if is_baseline or row.change is None else percent(row.change, sign=True),
            )
        )
    return out


def _legend(comparison: Comparison, shown: frozenset[str]) -> str:
    """What the table's marks and titles stand for, as far as it has them."""
    base = comparison.baseline
    parts = [f"* is what {engine_words(base.deployment.engine)} uses"]
    if "growing" in shown:
        parts.append("growing: padding per token, and what it adds to the useful bytes")
    if "blocks/req" in shown:
        parts.append(f"blocks/req: for one request of {_lengths(comparison)}")
    plain = base.deployment.plan.num_blocks is None and not base.deployment.plan.error
    if "change" in shown:
        compared = "tokens that the same memory holds" if plain else "tokens"
        parts.append(f"change: of {compared}, against the same grouping {with_label(base)}")
    if plain:
        parts.append("add --kv-cache-memory-bytes for tokens")
    return "; ".join(parts)


def _lengths(comparison: Comparison) -> str:
    """``40,960 tokens``, or each deployment's own length where they differ."""
    entries = (comparison.baseline, *comparison.variants)
    lengths = [number(entry.deployment.plan.max_model_len or 0) for entry in entries]
    if len(set(lengths)) == 1:
        return f"{lengths[0]} tokens"
    own = ", ".join(f"{length} {with_label(entry)}" for entry, length in zip(entries, lengths, strict=True))
    return f"the deployment's max_model_len ({own})"


def _errors(comparison: Comparison, view: View) -> list[str]:
    """Why a grouping does not start."""
    return [
        line
        for entry in (comparison.baseline, *comparison.variants)
        for row in entry.rows
        if row.plan.error
        for line in wrap(f"{label(entry)}, {row.grouping}: {error_words(row.plan.error)}", view.columns, "  - ", "    ")
    ]


def _causes(base: Entry, entry: Entry, view: View) -> list[str]:
    """Why one request takes more or fewer bytes than without the change, category by category, adding up."""
    if is_same(base, entry):
        return []
    title = f"Why {label(entry)}: {outcome(base, entry)}"
    out = [view.paint("title", line) for line in wrap(title, view.columns)]
    before, after = bytes_per_request(base.deployment.plan), bytes_per_request(entry.deployment.plan)
    if before is None or after is None:
        return [*out, *wrap(entry.deployment.plan.error or "the engine plans no blocks for it", view.columns, "  ")]
    out += wrap(_request(base, entry, before, after), view.columns, "  ")
    old, new = changes.holder(base.deployment), changes.holder(entry.deployment)
    for cause in entry.causes:
        words = costs.contrast(cause.category, old, new)
        text = f"{costs.name(cause.category, old, new)}: {words}" if words else costs.name(cause.category, old, new)
        out += wrap(text, view.columns, f"  {signed_size(cause.difference):>11}  ")
    out.append(f"  {signed_size(after - before):>11}  in all")
    same = unchanged(base.deployment.plan, entry.deployment.plan)
    if same:
        kept = ", ".join(f"{costs.name(c.category, old, new)} {size(c.after)}" for c in same)
        out += wrap(f"unchanged: {kept}", view.columns, "  ")
    shape = changes.structure(base.deployment, entry.deployment)
    return [*out, *(line for text in shape for line in wrap(text, view.columns, "  - ", "    "))]


def _request(base: Entry, entry: Entry, before: int, after: int) -> str:
    old, new = base.deployment.plan.max_model_len or 0, entry.deployment.plan.max_model_len or 0
    used = entry.deployment.selected
    if old == new:
        return f"one request of {number(new)} tokens takes {size(after)} instead of {size(before)} ({used} grouping):"
    return (
        f"one request of {number(new)} tokens takes {size(after)}, one of {number(old)} tokens took {size(before)} "
        f"({used} grouping):"
    )
