"""The KV budget of a GPU, line by line: what is computed, and what is only bounded."""

from __future__ import annotations

from kvplan.budget import Budget
from kvplan.report.lines import wrap
from kvplan.report.numbers import gib, number
from kvplan.report.style import View
from kvplan.result import Plan


def budget_lines(found: Budget, bound: Plan | None, view: View) -> list[str]:
    """The section. ``bound``: the plan with everything that the weights leave, where the rest is not known."""
    words = [
        f"{gib(found.requested_bytes)} of the GPU's {gib(found.usable_bytes)}: --gpu-memory-utilization "
        f"{found.gpu_memory_utilization:g}"
    ]
    for i, stage in enumerate(found.weights):
        where = f"stage {i}: " if len(found.weights) > 1 else ""
        drafter = f", {gib(stage.drafter)} of them the drafter's" if stage.drafter else ""
        words.append(f"{where}- {gib(stage.total)} weights per rank ({found.weights_source}){drafter}")
    if found.rest is not None:
        words.append(f"- {gib(found.rest.bytes)} activations, CUDA graphs and the like ({found.rest.source})")
        words.append(f"= {', '.join(gib(each) for each in found.memory)} for the KV cache")
    else:
        words.append("- activations, CUDA graphs and CUDA's own memory: not derived; vLLM measures them as it starts")
        words.append(f"at most {', '.join(gib(each) for each in found.memory)} for the KV cache{_holds(bound)}")
        words.append("give what they take with --non-kv-memory-bytes or --from-log LOG, or --kv-cache-memory-bytes")
    lines = [line for text in words for line in wrap(text, view.columns, "  ", "    ")]
    return view.titled("Budget", lines)


def _holds(bound: Plan | None) -> str:
    if bound is None or bound.error is not None or bound.kv_cache_size_tokens is None:
        return ""
    return f", so at most {number(bound.kv_cache_size_tokens)} tokens"
