"""The capacity of a plan and the cost of a request, as two sections of the text report."""

from __future__ import annotations

from kvplan.report import capacity, costs, diagram
from kvplan.report.decision import engines_words, stages_words
from kvplan.report.lines import Column, table, wrap
from kvplan.report.numbers import concurrency, gib, number, percent, plural, size
from kvplan.report.style import View
from kvplan.result import Plan, Result

_UNDER_PADDING = frozenset({"growing_padding", "bounded_padding", "page_rounding"})
"""Categories that the padding section explains."""


def length_words(result: Result) -> str:
    """The length that the used plan is made for, in tokens."""
    return number(result.plans[result.selected].max_model_len or result.config.max_model_len)


_AT_ONCE = (1, 4, 16, 64, 256, 1024)


def _holder(result: Result) -> costs.Holder:
    return costs.Holder(result.plans[result.selected], {layer.name: layer for layer in result.layers}, result.options())


def capacity_lines(result: Result, view: View, *, estimated: bool = False) -> list[str]:
    """Blocks, requests at once and tokens, with the arithmetic that gives them.

    ``estimated``: the report has a Budget section, which says what the GPU gives.
    """
    plan, config = result.plans[result.selected], result.config
    if not plan.groups or plan.bytes_per_block is None or plan.blocks_per_request is None:
        return []
    holder = _holder(result)
    whole = f" = {number(plan.blocks_per_request)}" if len(plan.groups) > 1 else ""
    words = [f"blocks per request: {_blocks_by_group(holder)}{whole}"]
    if plan.error:
        words += _too_small(result, plan)
    elif plan.num_blocks is None:
        from_gpu = "; Budget, below, has what the GPU gives" if estimated else ""
        words.append(f"no budget given: add --kv-cache-memory-bytes for blocks, tokens and requests at once{from_gpu}")
    else:
        words += [*_pool(result, plan), *_arithmetic(plan, engines_words(result))]
    if plan.longest_model_len is not None and (plan.error or plan.longest_model_len != plan.max_model_len):
        words.append(f"longest request that fits: {number(plan.longest_model_len)} tokens")
    lines = [line for text in words for line in wrap(text, view.columns, "  ", "    ")]
    return view.titled(f"Capacity ({result.selected})", [*lines, *_loads(plan, config.max_num_seqs, result, view)])


def _too_small(result: Result, plan: Plan) -> list[str]:
    """What the budget holds where one request does not fit into it."""
    memory, stages = result.available_memory_bytes, plan.bytes_per_block_per_stage
    if not memory or not plan.bytes_per_block:
        return []
    pairs = zip(memory, stages or (plan.bytes_per_block,), strict=False)
    blocks = min((available // block for available, block in pairs if block), default=0)
    if not blocks:
        return [f"{size(min(memory))} does not hold one block of {size(plan.bytes_per_block)}"]
    return [f"{gib(min(memory))} holds {plural(blocks, 'block')}, one of them the null block"]


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
    decides = "all stages hold the same" if len(set(fits)) == 1 else f"stage {limiting} has the fewest and decides"
    return [*out, f"{decides}: {blocks}; one is the null block"]


def _arithmetic(plan: Plan, where: str) -> list[str]:
    """How the tokens of vLLM's log come about."""
    if plan.max_concurrency is None or plan.kv_cache_size_tokens is None:
        return []
    blocks, each = number(plan.num_blocks or 0), number(plan.blocks_per_request or 0)
    tokens = f"x {number(plan.max_model_len or 0)} = {number(plan.kv_cache_size_tokens)} tokens"
    meaning = "what vLLM logs, a number of requests in tokens and not a store of so many"
    return [f"{blocks} / {each} = {concurrency(plan.max_concurrency)} requests at once{where}, {tokens}: {meaning}"]


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
        rows.append((number(load.length), number(load.blocks), size(load.bytes), at_once, "**" if capped else ""))
    size_of = "size, all stages" if stages_words(plan) else "size"
    columns = [Column("tokens a request", keep=1), Column("blocks", keep=1), Column(size_of, keep=1)]
    columns += [Column("requests at once", keep=1), Column("", right=False, keep=1)]
    lines = table(columns, rows, view.columns, view.glyphs.ellipsis)
    if any(row[-1] for row in rows):
        lines += wrap(f"** more than --max-num-seqs {max_num_seqs}, which then is the limit", view.columns, "  ")
    return [*lines, *_longest(plan, max_num_seqs, result, view)]


def _longest(plan: Plan, max_num_seqs: int, result: Result, view: View) -> list[str]:
    """The longest context of some numbers of requests at once, where it is shorter than max_model_len."""
    counts = [count for count in _AT_ONCE if count <= max_num_seqs]
    found = [(count, capacity.longest_for(plan, result.config, count)) for count in counts]
    shorter = [(count, length) for count, length in found if length is not None and length != plan.max_model_len]
    if not shorter:
        return []
    (count, length), *more = shorter[:4]
    first = f"{plural(count, 'request')} of up to {number(length)} tokens each"
    rest = [f"{number(count)} of up to {number(length)}" for count, length in more]
    return wrap(f"at once fit {', or '.join([first, *rest])}", view.columns, "  ", "    ")


def request_lines(result: Result, view: View) -> list[str]:
    """The straight line through a request's size, and its bytes at full length by category."""
    plan = result.plans[result.selected]
    cost = plan.request_cost
    if cost is None or not plan.groups:
        return []
    total = sum(cost.at_max_model_len.values())
    length = plan.max_model_len or 0
    head = f"{costs.line(cost, length)}; at {number(length)} tokens {size(total)}{stages_words(plan)}:"
    holder = _holder(result)
    rows = sorted(((n, key) for key, n in cost.at_max_model_len.items() if n), reverse=True)
    lines = wrap(head, view.columns, "  ")
    for n, key in rows:
        words = "see Padding" if key in _UNDER_PADDING else costs.describe(key, holder)
        name = costs.name(key, holder)
        text = f"{name}: {words}" if words else name
        lines += wrap(text, view.columns, f"  {size(n):>10}  {percent(n / total):>6}  ")
    return view.titled(f"One request ({result.selected})", lines)
