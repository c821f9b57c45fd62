"""`kvplan plan` as text: the decision first, then what it rests on. Pure: from a result to a string."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.prefix_hits import shortest_hit
from kvplan.report import capacity, diagram, kinds, padding
from kvplan.report.capacity_text import capacity_lines, length_words, request_lines
from kvplan.report.decision import decide, engine_words, error_words, gpus, stages_words, with_separators
from kvplan.report.lines import Column, table, titles, wrap
from kvplan.report.numbers import number, plural, share, size
from kvplan.report.style import VIEW, View
from kvplan.result import Plan, Result
from kvplan.spec import StateSpec

if TYPE_CHECKING:
    from kvplan.advice import Advice
    from kvplan.budget import Sized

_DECIDED = {"environment": " (VLLM_KV_CACHE_LAYOUT)", "connector": " (asked for by the KV connector)"}
_OUTCOMES = {"fits": "good", "refused": "bad", "unsized": "used", "empty": "used"}


def plan_text(result: Result, view: View = VIEW, advice: Advice | None = None, sized: Sized | None = None) -> str:
    """The whole report of one deployment, in lines of at most ``view.columns``, with a newline at its end."""
    found = decide(result, sized)
    sections = [
        [view.paint(_OUTCOMES[found.outcome], line) for line in wrap(found.sentence, view.columns)],
        _deployment(result, view),
        _layers(result, view),
        _groupings(result, view),
        *_drawings(result, view),
        _padding(result, view),
        capacity_lines(result, view, estimated=sized is not None),
        request_lines(result, view),
        _layout(result, view),
        _advice(advice, view),
        _notes(result, view),
        _budget(sized, view),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _budget(sized: Sized | None, view: View) -> list[str]:
    if sized is None:
        return []
    from kvplan.report.budget_text import budget_lines

    return budget_lines(sized, view)


# What is deployed


def _deployment(result: Result, view: View) -> list[str]:
    config, drafter = result.config, result.drafter
    rows = [("model", f"{result.model.id} ({result.model.architecture}, {result.model.source})")]
    if drafter is not None:
        own = drafter.id == result.model.id
        what = ", ".join(x for x in (drafter.architecture, "" if own else drafter.source) if x)
        name = "built into the target" if own else drafter.id
        tokens = plural(drafter.num_speculative_tokens, "speculative token")
        rows.append(("drafter", f"{name}{f' ({what})' if what else ''}, method {drafter.method}, {tokens}"))
    fitted = result.plans[result.selected].max_model_len
    auto = config.args.max_model_len == -1 and fitted is not None
    length = f"auto: {fitted} of {config.max_model_len}" if auto else str(config.max_model_len)
    rows += [
        ("engine", f"{engine_words(result.engine)} on {gpus(result)}"),
        ("KV dtype", _kv_dtype(result)),
        ("block", _block(result)),
        ("limits", f"--max-model-len {length}, --max-num-seqs {config.max_num_seqs}"),
        (
            "in flight",
            f"{number(config.max_in_flight_tokens)} tokens: {plural(config.max_concurrent_batches, 'batch', 'batches')}"
            f" of --max-num-batched-tokens {config.max_num_batched_tokens}",
        ),
        ("prefix cache", _prefix(result)),
    ]
    width = max(len(key) for key, _ in rows) + 2
    return [line for key, words in rows if words for line in wrap(words, view.columns, key.ljust(width))]


def _kv_dtype(result: Result) -> str:
    """What the layers store, and whether the flag or the checkpoint said so."""
    stored = dict.fromkeys(kinds.dtypes(layer.spec) for layer in result.layers if not isinstance(layer.spec, StateSpec))
    if not stored:
        return ""
    given, found = result.config.args.kv_cache_dtype, result.config.cache_dtype
    how = f"--kv-cache-dtype {given}"
    if found != given:
        how = f"{found}, from the checkpoint ({how})"
    return f"{how}, stored as {', '.join(stored)}"


def _block(result: Result) -> str:
    """The attention block, and what made it larger than asked."""
    config = result.config
    states = [layer.spec for layer in result.layers if isinstance(layer.spec, StateSpec)]
    attention = [layer for layer in result.layers if not isinstance(layer.spec, StateSpec)]
    if not attention:
        return ""
    words = plural(result.block_size, "token")
    given = config.args.block_size
    if given is not None:
        words += f" (--block-size {given})"
    if states and attention and given != result.block_size:
        largest = max(state.unpadded_page_size_bytes for state in states)
        page = max(state.page_size_bytes for state in states)
        words += f": large enough that an attention page ({size(page)}) holds one state ({size(largest)})"
    return words


def _prefix(result: Result) -> str:
    config = result.config
    plan = result.plans[result.selected]
    unit = shortest_hit(plan, config) or capacity.prefix_unit(plan, config)
    if not config.enable_prefix_caching or unit is None:
        return "on" if config.enable_prefix_caching else "off"
    mode = f", --mamba-cache-mode {config.mamba_cache_mode}" if config.is_hybrid else ""
    return f"on{mode}; a prompt shorter than {number(unit)} tokens never hits"


def _layers(result: Result, view: View) -> list[str]:
    columns = [
        Column("", right=False, keep=9),
        Column("layers", keep=9),
        Column("what they cache", right=False, keep=9, elastic=True),
        Column("heads x size", right=False, keep=5),
        Column("dtype", right=False, keep=3),
        Column("block", keep=9),
        Column("page", keep=9),
        Column("backend", right=False, keep=4),
    ]
    folds = kinds.fold(result.layers)
    rows = [
        (
            fold.letter,
            f"{len(fold.layers):,}",
            ("drafter " if fold.owner == "drafter" else "") + fold.words,
            kinds.heads(fold.first.spec),
            kinds.dtypes(fold.first.spec),
            kinds.block(fold.first.spec, result.config.max_model_len),
            size(fold.first.spec.page_size_bytes),
            fold.first.backend,
        )
        for fold in folds
    ]
    if not rows:
        return []
    cases = " (upper case target, lower case drafter)" if any(fold.owner == "drafter" for fold in folds) else ""
    title = f"{plural(len(result.layers), 'layer')} with a cache{cases}"
    return view.titled(title, table(columns, rows, view.columns, view.glyphs.ellipsis))


# How they are grouped


def same_plan(a: Plan, b: Plan) -> bool:
    """Whether two groupings come to the same groups, blocks and bytes."""
    return (
        a.error == b.error
        and a.bytes_per_block == b.bytes_per_block
        and [(g.layers, g.blocks_per_request) for g in a.groups] == [(g.layers, g.blocks_per_request) for g in b.groups]
    )


_GROWING = "growing padding"


def _groupings(result: Result, view: View) -> list[str]:
    columns = [
        Column("  grouping", right=False, keep=9),
        Column("layout", right=False, keep=2),
        Column("groups", keep=5),
        Column("block", keep=7),
        Column(_GROWING, keep=4),
        Column("blocks/request", keep=6),
        Column("request", keep=3),
        Column("tokens", keep=9),
    ]
    alike = _alike(result)
    rows = [grouping_row(" = ".join(n), result.plans[_shown(n, result)], result.selected in n) for n in alike]
    lines = table(columns, rows, view.columns, view.glyphs.ellipsis, indent="")
    painted = [lines[0], *(view.paint("used", line) if line.startswith("*") else line for line in lines[1:])]
    shown = titles(columns, rows, view.columns, indent="")
    errors = [line for text in _errors(result) for line in wrap(text, view.columns, "  ")]
    return view.titled("Groupings", [*painted, *wrap(_legend(result, alike, shown), view.columns), *errors])


def _alike(result: Result) -> list[list[str]]:
    """The names of the groupings, those that come to the same groups together."""
    alike: list[list[str]] = []
    for name, plan in result.plans.items():
        twins = next((names for names in alike if same_plan(result.plans[names[0]], plan)), None)
        if twins is None:
            alike.append([name])
        else:
            twins.append(name)
    return alike


def _shown(names: list[str], result: Result) -> str:
    """Of groupings that are the same, the used one."""
    return result.selected if result.selected in names else names[0]


def _legend(result: Result, alike: list[list[str]], shown: frozenset[str]) -> str:
    """What the table's marks and words stand for, as far as it has them."""
    text = f"* is what {engine_words(result.engine)} uses, for requests of {length_words(result)} tokens"
    if len(alike) > 1:
        text += "; main is the uniform page of 0.33.0, uniform that of vLLM pull request 58207, packed is for layouts "
        text += "with blocks outermost"
    padded = any(plan.padding and plan.padding.growing_bytes_per_token for plan in result.plans.values())
    if padded and _GROWING in shown:
        text += "; growing padding: per token, and what it adds to the useful bytes"
    spread = stages_words(result.plans[result.selected])
    if spread:
        text += f"; sizes of blocks and requests are sums{spread}, of one rank of each"
    return text


def _errors(result: Result) -> list[str]:
    """Why the groupings that are not used would not start, unless for the reason of the first sentence."""
    said = result.plans[result.selected].error
    names: dict[str, list[str]] = {}
    for name, plan in result.plans.items():
        if plan.error and plan.error != said:
            names.setdefault(plan.error, []).append(name)
    return [f"{' and '.join(who)}: {error_words(error)}" for error, who in names.items()]


def grouping_row(name: str, plan: Plan, used: bool) -> tuple[str, ...]:
    """One grouping as cells: name, layout, groups, block, growing padding, blocks, request, tokens."""
    blocks, block = plan.blocks_per_request, plan.bytes_per_block
    return (
        f"{'*' if used else ' '} {name}",
        plan.layout,
        number(len(plan.groups)) if plan.groups else "",
        "" if block is None else size(block),
        growing(plan),
        "" if blocks is None else number(blocks),
        "" if blocks is None or block is None else size(blocks * block),
        "does not start"
        if plan.error
        else ""
        if plan.kv_cache_size_tokens is None
        else number(plan.kv_cache_size_tokens),
    )


def growing(plan: Plan) -> str:
    """Growing padding per token with its share of the useful bytes: ``12 KiB +50 %``; ``none``."""
    if plan.padding is None:
        return ""
    if not plan.padding.growing_bytes_per_token:
        return "none"
    return f"{size(plan.padding.growing_bytes_per_token)} {share(plan.padding.growing_fraction)}"


def _drawings(result: Result, view: View) -> list[list[str]]:
    """The groups of the groupings; those that come to the same groups are drawn once."""
    layers = {layer.name: layer for layer in result.layers}
    out = []
    for names in _alike(result):
        plan = result.plans[_shown(names, result)]
        lines = diagram.draw(plan, layers, view)
        if lines:
            title = " = ".join(f"{name} (used)" if name == result.selected else name for name in names)
            words = diagram.legend(plan, layers, view)
            heading = [view.paint("title", line) for line in wrap(diagram.title(title, plan), view.columns)]
            drawn = [*lines, *wrap(f"({words})", view.columns)] if words else lines
            out.append([*heading, *(view.padding(line) for line in drawn)])
    return out


def _padding(result: Result, view: View) -> list[str]:
    layers = {layer.name: layer for layer in result.layers}
    plan = result.plans[result.selected]
    if not plan.groups:
        return []
    found = padding.lines(plan, layers, result.config.decode_context_parallel_size)
    found = found or ["every byte of every block belongs to a layer"]
    lines = [line for words in found for line in wrap(words, view.columns, "  - ", "    ")]
    return view.titled(f"Padding ({result.selected})", lines)


# Why this layout, and what else to know


def _layout(result: Result, view: View) -> list[str]:
    layout = result.layout
    by = _DECIDED.get(layout.decided_by, "")
    lines = wrap(f"{layout.name}{by}, of the candidates {', '.join(layout.candidates)}", view.columns, "  ")
    if layout.warning is not None:
        lines += wrap(layout.warning, view.columns, "  ")
    if layout.reasons:
        every = all(reason.holds for reason in layout.reasons)
        moved = "moves block-outermost layouts first, all conditions hold" if every else "keeps the order"
        lines += wrap(f"vllm-next {moved}:", view.columns, "  ")
    for reason in layout.reasons:
        role, mark = ("good", "yes") if reason.holds else ("bad", "no ")
        found = wrap(f"{reason.condition}: {reason.why}", view.columns, f"    {mark}  ")
        lines += [found[0].replace(mark, view.paint(role, mark), 1), *found[1:]]
    lines += [line for words in _kernel_blocks(result) for line in wrap(words, view.columns, "  ")]
    return view.titled("Layout", lines)


def _kernel_blocks(result: Result) -> list[str]:
    """The groups whose blocks an attention kernel reads in several pieces."""
    layers = {layer.name: layer for layer in result.layers}
    plan = result.plans[result.selected]
    out: dict[str, None] = {}
    for row, group in zip(diagram.rows(plan, layers), plan.groups, strict=True):
        kernel = group.kernel_block_size
        if kernel and kernel != group.block_size:
            backend = layers[group.layers[0]].backend
            pieces = plural(group.block_size // kernel, "kernel block")
            out[
                f"{row.letters}: {backend} reads a block of {number(group.block_size)} tokens as {pieces} of {kernel}"
            ] = None
    return list(out)


def _advice(advice: Advice | None, view: View) -> list[str]:
    if advice is None:
        return []
    from kvplan.report.advice_text import advice_words

    return view.titled("Try (planned, speed not judged)", wrap(advice_words(advice), view.columns, "  ", "    "))


def _notes(result: Result, view: View) -> list[str]:
    said = {result.layout.warning}
    notes = dict.fromkeys([*result.notes, *result.config.notes, *result.plans[result.selected].notes])
    for name, plan in result.plans.items():
        if name != result.selected:
            notes |= dict.fromkeys(f"{name}: {note}" for note in plan.notes if note not in notes)
    kept = [with_separators(note) for note in notes if note not in said]
    lines = [line for note in kept for line in wrap(note, view.columns, "  - ", "    ")]
    return view.titled("Notes", lines)
