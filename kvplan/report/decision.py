"""The first sentence of every report: does it start, how many requests fit, under which grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.report.numbers import concurrency, gib, number, plural, size
from kvplan.result import Plan, Result

if TYPE_CHECKING:
    import re

    from kvplan.budget import Budget, Sized, Weights


class Decision(NamedTuple):
    """One sentence, and how it came out."""

    outcome: str
    """fits | refused | unsized (no budget is known, not well enough, or none that the GPU has) | empty (nothing to
    cache)."""
    sentence: str


def decide(result: Result, sized: Sized | None = None) -> Decision:
    """What the engine will do with the deployment, in one sentence.

    ``sized``: what the GPU gives, for a deployment without a budget of its own.
    """
    plan = result.plans[result.selected]
    where = f"on {gpus(result)}{assumed_words(result.assumed)}"
    engine = engine_words(result.engine)
    if plan.error:
        return Decision("refused", f"It does not start {where}: {error_words(plan.error)}")
    if not plan.groups:
        return Decision("empty", f"It needs no KV cache {where}: no layer that {engine} runs caches anything.")
    grouped = f"{plural(len(plan.groups), 'group')} of layers ({result.selected} grouping, layout {plan.layout})"
    length = number(plan.max_model_len or result.config.max_model_len)
    if sized is not None and sized.too_heavy is not None:
        return _too_heavy(sized.budget, sized.too_heavy, where)
    if plan.num_blocks is None or plan.max_concurrency is None:
        estimated = None if sized is None else _estimated(result, sized, where, grouped)
        return estimated or Decision(
            "unsized",
            f"It is planned but not sized {where}: {engine} makes {grouped}, {_per_request(plan)}{stages_words(plan)}; "
            f"add --kv-cache-memory-bytes to see how many requests of {length} tokens fit.",
        )
    beyond = _beyond(plan, result)
    served = f"{concurrency(plan.max_concurrency)} requests of {length} tokens at once{engines_words(result)}"
    return Decision(
        "unsized" if beyond else "fits",
        f"{'It would fit' if beyond else 'It fits'} {where}{_budget(result)}{beyond}: {engine} serves {served} "
        f"(logged as {number(plan.kv_cache_size_tokens or 0)} tokens), with {grouped}.",
    )


def _too_heavy(found: Budget, heavy: Weights, where: str) -> Decision:
    return Decision(
        "refused",
        f"It does not fit {where}: the weights take {gib(heavy.total)} of a GPU, of which vLLM may use "
        f"{gib(found.requested_bytes)} (--gpu-memory-utilization {found.gpu_memory_utilization:g}); use more GPUs "
        "(-tp, -pp), larger ones or a quantised checkpoint.",
    )


def _beyond(plan: Plan, result: Result) -> str:
    """That the pool is larger than the GPU; nothing where it is not."""
    pool, usable = plan.pool_bytes, getattr(result.config.gpu, "usable_memory_bytes", None)
    if pool is None or usable is None or pool <= usable:
        return ""
    return f", if the {result.config.gpu.name} had more than its {gib(usable)}"


def _estimated(result: Result, sized: Sized, where: str, grouped: str) -> Decision | None:
    """What the GPU gives, where that is known within bounds; None where it is not."""
    found = sized.budget
    if found.estimate is None or len(sized.plans) != 3:
        return None
    (low, _, high), (least, _, most) = found.interval, sized.plans
    memory = f"{gib(min(low))} to {gib(min(high))} for the KV cache{' of each' if _world(result) > 1 else ''}"
    if most.error:
        return Decision("refused", f"It does not fit {where}, with an estimated {memory}: {error_words(most.error)}")
    if least.error or least.max_concurrency is None or most.max_concurrency is None:
        return Decision(
            "unsized", f"It may not fit {where}, with an estimated {memory}: {error_words(least.error or 'unknown')}"
        )
    requests = f"{concurrency(least.max_concurrency)} to {concurrency(most.max_concurrency)} requests"
    tokens = f"{number(least.kv_cache_size_tokens or 0)} to {number(most.kv_cache_size_tokens or 0)} tokens"
    length = number(most.max_model_len or result.config.max_model_len)
    return Decision(
        "fits",
        f"It should fit {where}, with an estimated {memory}: {engine_words(result.engine)} then serves {requests} of "
        f"{length} tokens at once{engines_words(result)} (logged as {tokens}), with {grouped}.",
    )


def _per_request(plan: Plan) -> str:
    blocks, block = plan.blocks_per_request or 0, plan.bytes_per_block or 0
    held = f"{plural(blocks, 'block')} of {size(block)}, {size(blocks * block)}"
    return f"and one request of {number(plan.max_model_len or 0)} tokens holds {held}"


def _budget(result: Result) -> str:
    memory = result.available_memory_bytes
    if not memory:
        return ""
    if len(set(memory)) == 1:
        return f" with {gib(memory[0])} for the KV cache{' of each' if _world(result) > 1 else ''}"
    return f" with {gib(min(memory))} to {gib(max(memory))} for the KV cache of each"


def stages_words(plan: Plan) -> str:
    """`` over the 2 pipeline stages``, after the size of a block or a request: both are spread over the stages."""
    stages = len(plan.bytes_per_block_per_stage)
    return f" over the {stages:,} pipeline stages" if stages > 1 else ""


def assumed_words(assumed: Sequence[str]) -> str:
    """What kvplan assumed, in brackets; nothing where everything was given."""
    return f" (assumed: {'; '.join(assumed)})" if assumed else ""


def _world(result: Result) -> int:
    """The GPUs of the deployment (`world_size_across_dp`, vllm/config/parallel.py)."""
    return prod(_sizes(result.options()).values())


def gpus(result: Result) -> str:
    """The GPUs of the deployment: ``one B300``, ``8 H200 (TP 4, PP 2)``."""
    return gpu_words(getattr(result.config.gpu, "name", None), result.options())


def gpu_words(name: str | None, options: Mapping[str, Any]) -> str:
    """A number of GPUs and how the model is split over them, or repeated; ``options``: under vLLM's names."""
    sizes = _sizes(options)
    world = prod(sizes.values())
    if world == 1:
        return f"one {name or 'GPU'}"
    split = [f"{short} {size}" for short, size in sizes.items() if size > 1]
    return f"{world:,} {name or 'GPU'} ({', '.join(split)})"


_PARALLEL = {
    "TP": "tensor_parallel_size",
    "PP": "pipeline_parallel_size",
    "PCP": "prefill_context_parallel_size",
    "DP": "data_parallel_size",
}
"""What GPUs are counted by: decode context parallelism takes those of tensor parallelism."""


def _sizes(options: Mapping[str, Any]) -> dict[str, int]:
    return {short: int(options.get(option) or 1) for short, option in _PARALLEL.items()}


def engines_words(result: Result) -> str:
    """`` in each of 2 engines``: data-parallel engines have a cache each; nothing for one engine."""
    count = result.config.data_parallel_size
    return f" in each of {count:,} engines" if count > 1 else ""


def engine_words(engine: str) -> str:
    """``vLLM 0.33.0``, ``vllm-next``."""
    return engine.replace("vllm-", "vLLM ") if engine.startswith("vllm-0") else engine


def error_words(error: str) -> str:
    """An error as the rest of a sentence that has said already that the engine does not start."""
    text = with_separators(error.strip().removeprefix("vLLM does not start: "))
    return text if text.endswith(".") else text + "."


def with_separators(text: str) -> str:
    """A sentence with its long counts as reports write them: 163,840; a flag's value stays as it is typed."""
    import re

    return re.sub(r"(?<![\w.,/:=-])(?<!--)(\d{4,15})(?![\w.]*\w)", lambda found: _separated(text, found), text)


def _separated(text: str, found: re.Match[str]) -> str:
    word = text[: found.start()].split(" ")[-2:-1]
    is_value = bool(word) and word[0].startswith("--")
    return found.group() if is_value else number(int(found.group()))
