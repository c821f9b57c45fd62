"""`kvplan fit`: the smallest tensor and pipeline parallelism on one node that starts and serves a load.

Weights and plan are exact; what a start-up takes besides is estimated, so the answer says whether it holds at the low
end of the estimate too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.commands.deployment import Choices, one_of, positive, request
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.errors import KvplanError
from kvplan.report.lines import Column, table, wrap
from kvplan.report.numbers import gib, number, plural
from kvplan.report.style import VIEW, View

if TYPE_CHECKING:
    from kvplan.budget import Budget
    from kvplan.inputs import Inputs
    from kvplan.pipeline import PlanRequest
    from kvplan.result import Result

FORMATS = ("text", "json")
_PARALLEL = ("-tp", "--tensor-parallel-size", "-pp", "--pipeline-parallel-size")


class Try(NamedTuple):
    """One choice of parallelism, and what comes of it."""

    tensor: int
    pipeline: int
    weights: int | None = None
    """Bytes per rank, on the stage that has the most."""
    memory: int | None = None
    """KV budget per rank as expected, on the stage that has the least."""
    requests: int | None = None
    """Requests of max_model_len that fit at once with the expected budget."""
    surely: int | None = None
    """The same with the least budget of the estimate."""
    why: str = ""
    """Why it does not start; empty where it does."""

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline

    def serves(self, concurrency: int) -> bool:
        return self.requests is not None and self.requests >= concurrency


def run(
    words: Sequence[str],
    choices: Choices,
    env: Mapping[str, str],
    *,
    concurrency: str = "1",
    gpus_per_node: str = "8",
    drafter: str | None = None,
    num_speculative_tokens: str | None = None,
    format: str = "text",
    view: View = VIEW,
) -> Outcome:
    """Try one GPU, then two, and so on. Exit code 1 where nothing on the node serves the load."""
    one_of("--format", format, FORMATS)
    wanted, most = positive("--concurrency", concurrency), positive("--gpus-per-node", gpus_per_node)
    count = None if num_speculative_tokens is None else positive("--num-speculative-tokens", num_speculative_tokens)
    if choices.gpu is None:
        raise KvplanError("--gpus is missing: name the node's GPU, such as --gpus H200.")
    given = next((word for word in words if word.partition("=")[0] in _PARALLEL), None)
    if given is not None:
        raise KvplanError(f"{given} is what kvplan fit looks for; leave it out.")
    tried: list[Try] = []
    length = None
    for tensor, pipeline in _candidates(most):
        if tried and tried[-1].gpus < tensor * pipeline and any(one.serves(wanted) for one in tried):
            break
        flags = [*words, "-tp", str(tensor), "-pp", str(pipeline)]
        one, found = _try(request(flags, choices, env, drafter=drafter, num_speculative_tokens=count), tensor, pipeline)
        tried.append(one)
        length = found or length
    best = next((one for one in tried if one.serves(wanted)), None)
    if format == "json":
        from kvplan.report.document import to_json

        text = to_json(_document(tried, best, wanted, length))
    else:
        text = "\n".join(_lines(tried, best, wanted, length, choices.gpu, view)) + "\n"
    return Outcome(text, DOES_NOT_FIT if best is None else FITS)


def _candidates(most: int) -> Iterator[tuple[int, int]]:
    """Tensor and pipeline sizes by the number of GPUs, and among the same by how far a layer is split."""
    count = 1
    while count <= most:
        tensor = count
        while tensor:
            if count % tensor == 0:
                yield tensor, count // tensor
            tensor //= 2
        count *= 2


def _try(wanted: PlanRequest, tensor: int, pipeline: int) -> tuple[Try, int | None]:
    """What comes of one choice, and the model length that it was planned with."""
    from kvplan.budget import budget
    from kvplan.inputs import read
    from kvplan.pipeline import plan_read

    one = Try(tensor, pipeline)
    try:
        args, inputs = read(wanted.args, offline=wanted.offline)
        wanted = wanted._replace(args=args)
        result = plan_read(wanted, inputs, only_used=True)
        if result.available_memory_bytes is not None:
            raise KvplanError("--kv-cache-memory-bytes says what the KV cache gets; leave it out of kvplan fit.")
        found = budget(result.config, inputs.target, inputs.drafter, None)
        return _sized(one, found, wanted, inputs), result.config.max_model_len
    except KvplanError as error:
        return one._replace(why=str(error)), None


def _sized(one: Try, found: Budget, wanted: PlanRequest, inputs: Inputs) -> Try:
    from kvplan.pipeline import plan_read

    least, expected, _ = found.interval
    one = one._replace(weights=max(stage.total for stage in found.weights), memory=min(expected))
    results = [
        plan_read(wanted._replace(available_memory_bytes=memory), inputs, only_used=True) if min(memory) else None
        for memory in (expected, least)
    ]
    requests, surely = (0 if result is None else _requests(result) for result in results)
    why = "" if requests else "one request of the model length does not fit beside the weights"
    return one._replace(requests=requests, surely=surely, why=why)


def _requests(result: Result) -> int:
    """Whole requests of the model length in the pool beside its null block; 0 where vLLM does not start."""
    plan = result.plans[result.selected]
    if plan.error is not None or plan.num_blocks is None or not plan.blocks_per_request:
        return 0
    return min((plan.num_blocks - 1) // plan.blocks_per_request, result.config.max_num_seqs)


def _lines(
    tried: Sequence[Try], best: Try | None, wanted: int, length: int | None, gpu: str, view: View
) -> Iterator[str]:
    each = "the model length" if length is None else f"{number(length)} tokens"
    load = f"{plural(wanted, 'request')} of {each} at once"
    if best is None:
        yield from wrap(f"Nothing on one node of {gpu} serves {load}.", view.columns)
    else:
        least = best.surely or 0
        sure = "also" if least >= wanted else f"but only {number(least)}"
        flags = f"-tp {best.tensor} -pp {best.pipeline} holds {number(best.requests or 0)}"
        sentence = f"{number(best.gpus)} x {gpu} serve {load}: {flags}, {sure} at the low end of the estimate."
        yield from wrap(sentence, view.columns)
    yield ""
    columns = [Column("GPUs", keep=1), Column("flags", right=False, keep=1), Column("weights", keep=1)]
    columns += [Column("KV budget", keep=1), Column("requests", keep=1), Column("at least", keep=1)]
    yield from table(columns, [_row(one) for one in tried], view.columns, view.glyphs.ellipsis)
    for why in dict.fromkeys(one.why for one in tried if one.why):
        where = ", ".join(f"-tp {one.tensor} -pp {one.pipeline}" for one in tried if one.why == why)
        yield from wrap(f"{where}: {why}", view.columns, "  ", "    ")


def _row(one: Try) -> tuple[str, ...]:
    flags = f"-tp {one.tensor} -pp {one.pipeline}"
    sizes = ("" if size is None else gib(size) for size in (one.weights, one.memory))
    counts = ("" if count is None else number(count) for count in (one.requests, one.surely))
    return (str(one.gpus), flags, *sizes, *counts)


def _document(tried: Sequence[Try], best: Try | None, wanted: int, length: int | None) -> dict[str, Any]:
    """As JSON: bytes per rank; ``fits`` is the smallest choice, null where there is none."""
    rows = [
        {
            "gpus": one.gpus,
            "tensor_parallel_size": one.tensor,
            "pipeline_parallel_size": one.pipeline,
            "weights_bytes": one.weights,
            "kv_cache_bytes": one.memory,
            "requests": one.requests,
            "requests_at_least": one.surely,
            "error": one.why or None,
        }
        for one in tried
    ]
    fits = None if best is None else rows[tried.index(best)]
    return {"max_model_len": length, "concurrency": wanted, "fits": fits, "tried": rows}
