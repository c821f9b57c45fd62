"""`kvplan plan` as text: the decision first, then what it rests on. Pure: from a result to a string."""

from __future__ import annotations

from kvplan.report import capacity, costs, diagram, kinds, padding
from kvplan.report.decision import decide, engine_words, gpus
from kvplan.report.lines import Column, table, wrap
from kvplan.report.numbers import concurrency, gib, number, percent, plural, share, size
from kvplan.report.style import VIEW, View
from kvplan.result import Plan, Result
from kvplan.spec import MultipleOf, StateSpec

_OUTCOMES = {"fits": "good", "refused": "bad", "unsized": "used", "empty": "used"}

_UNDER_PADDING = frozenset({"growing_padding", "bounded_padding", "page_rounding"})
"""Categories that the padding section explains."""


def plan_text(result: Result, view: View = VIEW) -> str:
    """The whole report of one deployment, in lines of at most ``view.columns``, with a newline at its end."""
    found = decide(result)
    sections = [
        [view.paint(_OUTCOMES[found.outcome], line) for line in wrap(found.sentence, view.columns)],
        _deployment(result, view),
        _layers(result, view),
        _groupings(result, view),
        *_drawings(result, view),
        _padding(result, view),
        _capacity(result, view),
        _request(result, view),
        _layout(result, view),
        _notes(result, view),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _titled(title: str, lines: list[str], view: View) -> list[str]:
    return [view.paint("title", title), *lines] if lines else []


def _length(result: Result) -> str:
    return number(result.plans[result.selected].max_model_len or result.config.max_model_len)


def _holder(result: Result, name: str) -> costs.Holder:
    return costs.Holder(result.plans[name], {layer.name: layer for layer in result.layers}, result.options())


# What is deployed


def _deployment(result: Result, view: View) -> list[str]:
    config, drafter = result.config, result.drafter
    rows = [("model", f"{result.model.id} ({result.model.architecture}, {result.model.source})")]
    if drafter is not None:
        what = ", ".join(x for x in (drafter.architecture, drafter.source) if x)
        tokens = plural(drafter.num_speculative_tokens, "speculative token")
        rows.append(("drafter", f"{drafter.id} ({what}), method {drafter.method}, {tokens}"))
    rows += [
        ("engine", f"{engine_words(result.engine)} on {gpus(result)}"),
        ("KV dtype", _kv_dtype(result)),
        ("block", _block(result)),
        ("limits", f"--max-model-len {config.max_model_len}, --max-num-seqs {config.max_num_seqs}"),
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
    unit = capacity.prefix_unit(result.plans[result.selected], config)
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
    return _titled(title, table(columns, rows, view.columns, view.glyphs.ellipsis), view)


# How they are grouped


def same_plan(a: Plan, b: Plan) -> bool:
    """Whether two groupings come to the same groups, blocks and bytes."""
    return (
        a.error == b.error
        and a.bytes_per_block == b.bytes_per_block
        and [(g.layers, g.blocks_per_request) for g in a.groups] == [(g.layers, g.blocks_per_request) for g in b.groups]
    )


def _groupings(result: Result, view: View) -> list[str]:
    columns = [
        Column("  grouping", right=False, keep=9),
        Column("layout", right=False, keep=5),
        Column("groups", keep=9),
        Column("block", keep=9),
        Column("growing padding", keep=8),
        Column("blocks/request", keep=9),
        Column("request", keep=6),
        Column("tokens", keep=9),
    ]
    rows = [grouping_row(name, plan, name == result.selected) for name, plan in result.plans.items()]
    lines = table(columns, rows, view.columns, view.glyphs.ellipsis, indent="")
    painted = [lines[0], *(view.paint("used", line) if line.startswith("*") else line for line in lines[1:])]
    used = (
        f"* is what {engine_words(result.engine)} uses, for requests of {_length(result)} tokens; main is 0.33.0's "
        "uniform page, uniform that of vLLM pull request 58207, packed is for layouts with blocks outermost"
    )
    errors = [
        line
        for name, plan in result.plans.items()
        if plan.error and name != result.selected
        for line in wrap(f"{name}: {plan.error}", view.columns, "  ")
    ]
    return _titled("Groupings", [*painted, *wrap(used, view.columns), *errors], view)


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
    alike: list[list[str]] = []
    for name, plan in result.plans.items():
        twins = next((names for names in alike if same_plan(result.plans[names[0]], plan)), None)
        if twins is None:
            alike.append([name])
        else:
            twins.append(name)
    out = []
    for names in alike:
        plan = result.plans[names[0]]
        lines = diagram.draw(plan, layers, view)
        if lines:
            title = " = ".join(f"{name} (used)" if name == result.selected else name for name in names)
            words = diagram.legend(plan, layers, view)
            heading = [view.paint("title", line) for line in wrap(diagram.title(title, plan), view.columns)]
            out.append([*heading, *lines, *([f"({words})"] if words else [])])
    return out


def _padding(result: Result, view: View) -> list[str]:
    layers = {layer.name: layer for layer in result.layers}
    plan = result.plans[result.selected]
    if not plan.groups:
        return []
    found = padding.lines(plan, layers, result.config.decode_context_parallel_size)
    found = found or ["every byte of every block belongs to a layer"]
    lines = [line for words in found for line in wrap(words, view.columns, "  - ", "    ")]
    return _titled(f"Padding ({result.selected})", lines, view)


# What fits


def _capacity(result: Result, view: View) -> list[str]:
    plan, config = result.plans[result.selected], result.config
    if not plan.groups or plan.bytes_per_block is None or plan.blocks_per_request is None:
        return []
    holder = _holder(result, result.selected)
    whole = f" = {number(plan.blocks_per_request)}" if len(plan.groups) > 1 else ""
    words = [f"blocks per request: {_blocks_by_group(holder)}{whole}"]
    if plan.num_blocks is None:
        words.append("no budget given: add --kv-cache-memory-bytes for blocks, tokens and requests at once")
    else:
        words += [*_pool(result, plan), *_arithmetic(plan)]
    if plan.longest_model_len is not None and (plan.error or plan.longest_model_len != plan.max_model_len):
        words.append(f"longest request that fits: {number(plan.longest_model_len)} tokens")
    lines = [line for text in words for line in wrap(text, view.columns, "  ", "    ")]
    return _titled(f"Capacity ({result.selected})", [*lines, *_loads(plan, config.max_num_seqs, result, view)], view)


def _pool(result: Result, plan: Plan) -> list[str]:
    memory, blocks = result.available_memory_bytes, plural(plan.num_blocks or 0, "block")
    if result.config.args.num_gpu_blocks_override is not None:
        return [
            f"{blocks} of {size(plan.bytes_per_block or 0)}, set by --num-gpu-blocks-override; one is the null block"
        ]
    if memory is None:
        return [f"{blocks} of {size(plan.bytes_per_block or 0)}; one is the null block"]
    stages = plan.bytes_per_block_per_stage
    if len(stages) <= 1:
        return [f"{gib(memory[0])} / {size(plan.bytes_per_block or 0)} a block = {blocks}; one is the null block"]
    each = [memory[i] if len(memory) == len(stages) else memory[0] for i in range(len(stages))]
    fits = [each[i] // stages[i] if stages[i] else 0 for i in range(len(stages))]
    out = [
        f"stage {i}: {gib(each[i])} / {size(stages[i])} a block = {number(fits[i])} blocks" for i in range(len(stages))
    ]
    limiting = min(range(len(fits)), key=lambda i: fits[i])
    return [*out, f"stage {limiting} has the fewest and decides: {blocks}; one is the null block"]


def _arithmetic(plan: Plan) -> list[str]:
    """How the tokens of vLLM's log come about."""
    if plan.max_concurrency is None or plan.kv_cache_size_tokens is None:
        return []
    blocks, each = number(plan.num_blocks or 0), number(plan.blocks_per_request or 0)
    tokens = f"x {number(plan.max_model_len or 0)} = {number(plan.kv_cache_size_tokens)} tokens"
    meaning = "what vLLM logs, a number of requests in tokens and not a store of so many"
    return [f"{blocks} / {each} = {concurrency(plan.max_concurrency)} requests at once, {tokens}: {meaning}"]


def _blocks_by_group(holder: costs.Holder) -> str:
    """``10 x 205 (F) + 410 (f)``: groups times blocks, by the letters of their layers."""
    counts: dict[tuple[str, int], int] = {}
    for row, group in zip(diagram.rows(holder.plan, holder.layers), holder.plan.groups, strict=True):
        key = (row.letters, group.blocks_per_request)
        counts[key] = counts.get(key, 0) + 1
    return " + ".join(f"{f'{n:,} x ' if n > 1 else ''}{blocks:,} ({marks})" for (marks, blocks), n in counts.items())


def _loads(plan: Plan, max_num_seqs: int, result: Result, view: View) -> list[str]:
    found = capacity.loads(plan, result.config)
    if len(found) < 2:
        return []
    rows = []
    for load in found:
        capped = load.at_once is not None and load.at_once > max_num_seqs
        at_once = "" if load.at_once is None else concurrency(load.at_once)
        rows.append(
            (number(load.length), number(load.blocks), size(load.bytes), at_once + (" **" if capped else "   "))
        )
    columns = [Column("tokens a request", keep=1), Column("blocks", keep=1), Column("size", keep=1)]
    columns.append(Column("requests at once   ", keep=1))
    lines = table(columns, rows, view.columns, view.glyphs.ellipsis)
    if any(row[3].endswith("**") for row in rows):
        lines += wrap(f"** more than --max-num-seqs {max_num_seqs}, which then is the limit", view.columns, "  ")
    return lines


def _request(result: Result, view: View) -> list[str]:
    plan = result.plans[result.selected]
    cost = plan.request_cost
    if cost is None or not plan.groups:
        return []
    total = sum(cost.at_max_model_len.values())
    length = number(plan.max_model_len or 0)
    head = (
        f"{size(cost.fixed_bytes)} fixed + {padding.per_token(cost.bytes_per_token)}; at {length} tokens {size(total)}:"
    )
    holder = _holder(result, result.selected)
    rows = sorted(((n, key) for key, n in cost.at_max_model_len.items() if n), reverse=True)
    lines = wrap(head, view.columns, "  ")
    for n, key in rows:
        words = "see Padding" if key in _UNDER_PADDING else costs.describe(key, holder)
        text = f"{costs.name(key)}: {words}" if words else costs.name(key)
        lines += wrap(text, view.columns, f"  {size(n):>10}  {percent(n / total):>6}  ")
    return _titled(f"One request ({result.selected})", lines, view)


# Why this layout, and what else to know


def _layout(result: Result, view: View) -> list[str]:
    layout = result.layout
    lines = wrap(f"{layout.name}, of the candidates {', '.join(layout.candidates)}", view.columns, "  ")
    if layout.reasons:
        every = all(reason.holds for reason in layout.reasons)
        moved = "moves block-outermost layouts first, all conditions hold" if every else "keeps the order"
        lines += wrap(f"vllm-next {moved}:", view.columns, "  ")
    for reason in layout.reasons:
        role, mark = ("good", "yes") if reason.holds else ("bad", "no ")
        found = wrap(f"{reason.condition}: {reason.why}", view.columns, f"    {mark}  ")
        lines += [found[0].replace(mark, view.paint(role, mark), 1), *found[1:]]
    lines += [line for words in _kernel_blocks(result) for line in wrap(words, view.columns, "  ")]
    return _titled("Layout", lines, view)


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


def kernel_sizes(sizes: tuple[int | MultipleOf, ...]) -> str:
    """``16, 32, 64`` or ``any x 16``."""
    return ", ".join(f"any x {s.base}" if isinstance(s, MultipleOf) else str(s) for s in sizes)


def _notes(result: Result, view: View) -> list[str]:
    notes = dict.fromkeys([*result.notes, *result.config.notes, *result.plans[result.selected].notes])
    for name, plan in result.plans.items():
        if name != result.selected:
            notes |= dict.fromkeys(f"{name}: {note}" for note in plan.notes if note not in notes)
    return _titled("Notes", [line for note in notes for line in wrap(note, view.columns, "  - ", "    ")], view)
