"""The KV budget of a GPU, line by line: what is computed, and what is only bounded."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.budget import Budget, Sized
from kvplan.estimates import HIGHEST, LOWEST, Estimate
from kvplan.report.lines import wrap
from kvplan.report.numbers import gib, number
from kvplan.report.style import View
from kvplan.result import Plan


def budget_lines(sized: Sized, view: View) -> list[str]:
    """The section: what the GPU gives, what is taken of it, and what the rest holds."""
    found, plans = sized
    words = [
        f"{gib(found.requested_bytes)} of the GPU's {gib(found.usable_bytes)} for CUDA: --gpu-memory-utilization "
        f"{found.gpu_memory_utilization:g}"
    ]
    where = [f" of stage {i}" if len(found.weights) > 1 else "" for i in range(len(found.weights))]
    for stage, name in zip(found.weights, where, strict=True):
        drafter = f", {gib(stage.drafter)} of them the drafter's" if stage.drafter else ""
        words.append(f"- {gib(stage.total)} weights per rank{name} ({found.weights_source}){drafter}")
    if found.rest is not None:
        words.append(f"- {gib(found.rest.bytes)} activations, CUDA graphs and the like ({found.rest.source})")
        words += [f"= {gib(left)} for the KV cache{name}" for name, left in zip(where, found.memory, strict=True)]
    elif found.estimate is not None:
        words += _estimated(found, found.estimate, where, plans)
    else:
        words.append("- activations, CUDA graphs and CUDA's own memory: not derived; vLLM measures them as it starts")
        bounds = [f"at most {gib(left)} for the KV cache{name}" for name, left in zip(where, found.memory, strict=True)]
        words += [*bounds[:-1], bounds[-1] + _holds(plans)]
    if found.rest is None:
        words.append("give what they take with --non-kv-memory-bytes or --from-log LOG, or --kv-cache-memory-bytes")
    lines = [line for text in words for line in wrap(text, view.columns, "  ", "    ")]
    return view.titled("Budget", lines)


def _estimated(found: Budget, estimate: Estimate, where: Sequence[str], plans: Sequence[Plan]) -> list[str]:
    """One line for each estimate, and the interval that follows from their error on each stage."""
    lines = [f"- about {gib(line.bytes)} {line.what} ({line.how})" for line in estimate.lines]
    error = f"x{LOWEST:g} to x{HIGHEST:g} of these estimates"
    for name, least, expected, most in zip(where, *found.interval, strict=True):
        lines.append(f"= about {gib(expected)} for the KV cache{name}; {gib(least)} to {gib(most)} at {error}")
    return [*lines, *_tokens(plans)]


def _tokens(plans: Sequence[Plan]) -> list[str]:
    counts = [plan.kv_cache_size_tokens for plan in plans if plan.error is None]
    if len(counts) < 3 or None in counts:
        return []
    least, expected, most = (number(count) for count in counts if count is not None)
    return [f"about {expected} tokens; {least} to {most}"]


def _holds(plans: Sequence[Plan]) -> str:
    bound = plans[-1] if plans else None
    if bound is None or bound.error is not None or bound.kv_cache_size_tokens is None:
        return ""
    return f", so at most {number(bound.kv_cache_size_tokens)} tokens"
