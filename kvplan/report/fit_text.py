"""What `kvplan fit` found, as text and as JSON. Pure: from a Fitting to a string or a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan import __version__
from kvplan.fitting import Fitting, Try
from kvplan.report.decision import assumed_words, engine_words, with_separators
from kvplan.report.document import SCHEMA_VERSION, plain
from kvplan.report.lines import Column, table, wrap
from kvplan.report.numbers import gib, number, plural
from kvplan.report.style import VIEW, View

_SEARCHED = ("tensor_parallel_size", "pipeline_parallel_size")
"""Options that each choice has of its own."""


def fit_text(found: Fitting, view: View = VIEW) -> str:
    """The answer in one sentence, the choices that were tried, and what they were planned with."""
    return "\n".join(_lines(found, view)) + "\n"


def _lines(found: Fitting, view: View) -> Iterator[str]:
    yield from wrap(_sentence(found), view.columns)
    yield ""
    columns = [Column("GPUs", keep=9), Column("flags", right=False, keep=9), Column("weights", keep=1)]
    columns += [Column("KV budget", keep=2), Column("requests", keep=9), Column("at least", keep=9)]
    yield from table(columns, [_row(found, one) for one in found.tried], view.columns, view.glyphs.ellipsis)
    for why in dict.fromkeys(one.why for one in found.tried if one.why):
        where = ", ".join(_flags(found, one) for one in found.tried if one.why == why)
        yield from wrap(f"{where}: {with_separators(why)}", view.columns, "  ", "    ")
    yield ""
    for words in (_legend(found), _planned(found), _sequences(found), *found.planned.notes):
        yield from wrap(words, view.columns, "  - ", "    ")


def _sentence(found: Fitting) -> str:
    best, gpu = found.best, found.planned.config.gpu.name
    length = number(found.planned.config.max_model_len)
    load = f"{plural(found.concurrency, 'request')} of {length} tokens at once{assumed_words(found.planned.assumed)}"
    if best is None:
        capped = found.most_at_once < found.concurrency
        cause = f": --max-num-seqs {found.planned.config.max_num_seqs} {_runs(found)}" if capped else ""
        return f"Nothing on one node of {number(found.gpus_per_node)} {gpu} serves {load}{cause}."
    least = best.surely or 0
    sure = "also" if least >= found.concurrency else f"but only {number(least)}"
    serve = "serves" if best.gpus == 1 else "serve"
    return (
        f"{number(best.gpus)} x {gpu} {serve} {load}: {_flags(found, best)} holds {number(best.requests or 0)}, {sure} "
        "at the low end of the estimate."
    )


def _runs(found: Fitting) -> str:
    """What --max-num-seqs allows, over all engines."""
    engines = f" in {found.engines:,} engines" if found.engines > 1 else ""
    return f"runs no more than {number(found.most_at_once)} of them{engines}"


def _flags(found: Fitting, one: Try) -> str:
    engines = f" -dp {found.engines}" if found.engines > 1 else ""
    return f"-tp {one.tensor} -pp {one.pipeline}{engines}"


def _row(found: Fitting, one: Try) -> tuple[str, ...]:
    sizes = ("" if size is None else gib(size) for size in (one.weights, one.memory))
    counts = ("" if count is None else number(count) for count in (one.requests, one.surely))
    return (str(one.gpus), _flags(found, one), *sizes, *counts)


def _legend(found: Fitting) -> str:
    length = number(found.planned.config.max_model_len)
    engines = f", in all {found.engines:,} engines" if found.engines > 1 else ""
    estimated = any(one.surely is not None for one in found.tried)
    rest = "as estimated; at least: at the low end of that estimate" if estimated else "left out, as it is not known"
    return (
        "weights and KV budget: of the rank that has the most weights or the least budget; requests: whole ones of "
        f"{length} tokens that fit at once{engines}, with what a start-up takes {rest}"
    )


def _planned(found: Fitting) -> str:
    """What was planned: the drafter is part of the load."""
    planned, config = found.planned, found.planned.config
    drafter = ""
    if planned.drafter is not None:
        name = "its built-in drafter" if planned.drafter.id == planned.model.id else planned.drafter.id
        tokens = plural(planned.drafter.num_speculative_tokens, "speculative token")
        drafter = f" with {name} ({planned.drafter.method}, {tokens})"
    return (
        f"{planned.model.id}{drafter} under {engine_words(planned.engine)}, --max-num-seqs {config.max_num_seqs}, "
        f"--max-num-batched-tokens {config.max_num_batched_tokens}, --gpu-memory-utilization "
        f"{config.args.gpu_memory_utilization:g}"
    )


def _sequences(found: Fitting) -> str:
    """Where --max-num-seqs comes from, and that the load needs less."""
    config = found.planned.config
    needed = -(-found.concurrency // found.engines)
    if config.max_num_seqs < needed:
        return f"--max-num-seqs {config.max_num_seqs} {_runs(found)}, whatever fits; raise it to {needed} or more"
    if config.args.max_num_seqs is None and config.max_num_seqs > needed:
        return (
            f"--max-num-seqs {config.max_num_seqs} is vLLM's default here, and a start-up takes memory for each; the "
            f"load needs {needed}, and a lower --max-num-seqs leaves more for the cache"
        )
    return f"--max-num-seqs {config.max_num_seqs} holds the load"


def fit_document(found: Fitting) -> dict[str, Any]:
    """As JSON: bytes per rank; ``fits`` is the smallest choice, null where there is none.

    ``options``: as they were planned, but for the two that each choice has of its own.
    """
    planned = found.planned
    rows = [_try(one) for one in found.tried]
    return {
        "schema_version": SCHEMA_VERSION,
        "kvplan_version": __version__,
        "engine": planned.engine,
        "model": planned.model._asdict(),
        "drafter": None if planned.drafter is None else planned.drafter._asdict(),
        "options": {name: plain(value) for name, value in planned.options().items() if name not in _SEARCHED},
        "gpus_per_node": found.gpus_per_node,
        "max_model_len": planned.config.max_model_len,
        "concurrency": found.concurrency,
        "fits": None if found.best is None else rows[found.tried.index(found.best)],
        "tried": rows,
        "assumed": list(planned.assumed),
        "notes": list(planned.notes),
    }


def _try(one: Try) -> dict[str, Any]:
    return {
        "gpus": one.gpus,
        "tensor_parallel_size": one.tensor,
        "pipeline_parallel_size": one.pipeline,
        "weights_bytes": one.weights,
        "kv_cache_bytes": one.memory,
        "requests": one.requests,
        "requests_at_least": one.surely,
        "error": one.why or None,
    }
