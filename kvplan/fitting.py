"""The smallest parallelism on one node that serves a load: one GPU is tried, then two, and so on.

Weights and plan are exact; what a start-up takes besides is estimated (`kvplan.estimates`), so each choice has what
fits with the expected budget and what fits with the least.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvplan.budget import Budget, Sized, budget
from kvplan.errors import KvplanError, Refused
from kvplan.inputs import Inputs
from kvplan.pipeline import PlanRequest, plan_read, with_memory
from kvplan.result import Result

SEARCHED = "{word} is what kvplan fit looks for; leave it out."


class Try(NamedTuple):
    """One choice of parallelism, and what comes of it."""

    tensor: int
    pipeline: int
    gpus: int
    """Of all data-parallel engines."""
    weights: int | None = None
    """Bytes per rank, on the stage that has the most."""
    memory: int | None = None
    """KV budget per rank as expected, on the stage that has the least; a bound where nothing is estimated."""
    requests: int | None = None
    """Requests of max_model_len that all engines together serve at once with ``memory``."""
    surely: int | None = None
    """The same with the least budget of the estimate; None where nothing is estimated."""
    why: str = ""
    """Why it does not start; empty where it does."""

    def serves(self, concurrency: int) -> bool:
        return self.requests is not None and self.requests >= concurrency


class Fitting(NamedTuple):
    """What was asked, and the choices that were tried: by the number of GPUs, up to the first that serves the load."""

    gpus_per_node: int
    concurrency: int
    tried: tuple[Try, ...]
    planned: Result
    """Of the first choice that could be planned: model, drafter, options but for the parallelism, and notes."""

    @property
    def best(self) -> Try | None:
        """The smallest choice that serves the load as expected."""
        return next((one for one in self.tried if one.serves(self.concurrency)), None)

    @property
    def engines(self) -> int:
        return self.planned.config.data_parallel_size

    @property
    def most_at_once(self) -> int:
        """Requests that --max-num-seqs lets all engines together run at once, whatever their memory."""
        return self.planned.config.max_num_seqs * self.engines


def fitting(request: PlanRequest, inputs: Inputs, *, concurrency: int, gpus_per_node: int) -> Fitting:
    """Try choices on a node of ``request.gpu`` until all of one number of GPUs are tried, and one serves the load.

    KvplanError where options say what the search is for, or where no choice can be planned.
    """
    check(request)
    engines = request.args.data_parallel_size
    tried: list[Try] = []
    planned: Result | None = None
    refused: KvplanError | None = None
    for tensor, pipeline in candidates(gpus_per_node // engines):
        one = Try(tensor, pipeline, tensor * pipeline * engines)
        if tried and tried[-1].gpus < one.gpus and any(each.serves(concurrency) for each in tried):
            break
        args = request.args._replace(tensor_parallel_size=tensor, pipeline_parallel_size=pipeline)
        try:
            one, result = _sized(one, request._replace(args=args), inputs)
            planned = planned or result
        except KvplanError as error:
            refused = refused or error
            one = one._replace(why=str(error))
        tried.append(one)
    if planned is None:  # what no parallelism changes is wrong with the input; the first choice says it best
        raise refused or KvplanError(
            f"--data-parallel-size {engines} takes a GPU for each engine; --gpus-per-node says {gpus_per_node}."
        )
    found = Fitting(gpus_per_node, concurrency, tuple(tried), planned)
    if found.best is not None and found.best.surely is None:
        raise Refused(_only_bounded(found.best, planned.config.gpu.name))
    return found


def _only_bounded(best: Try, gpu: str) -> str:
    flags = f"-tp {best.tensor} -pp {best.pipeline}"
    return (
        f"--gpus {gpu}: what a start-up takes of memory that the GPU shares with the CPU is not estimated, so all that "
        f"is known is that {flags} holds no more than {best.requests} at once; ask kvplan plan with {flags} and "
        "--non-kv-memory-bytes or --from-log."
    )


def check(request: PlanRequest) -> None:
    """KvplanError for options that decide what the search finds out, or leave the load open."""
    args = request.args
    if request.available_memory_bytes is not None or args.kv_cache_memory_bytes:
        raise KvplanError("--kv-cache-memory-bytes says what the KV cache gets; leave it out of kvplan fit.")
    if args.num_gpu_blocks_override is not None:
        raise KvplanError("--num-gpu-blocks-override says what the KV cache holds; leave it out of kvplan fit.")
    for flag, size in (("-tp", args.tensor_parallel_size), ("-pp", args.pipeline_parallel_size)):
        if size != 1:
            raise KvplanError(SEARCHED.format(word=f"{flag} {size}"))
    if args.prefill_context_parallel_size != 1:
        size = args.prefill_context_parallel_size
        raise KvplanError(f"--prefill-context-parallel-size {size} is not tried by kvplan fit; leave it out.")
    if args.max_model_len == -1:
        raise KvplanError(
            "--max-model-len auto shortens the requests to what fits; give kvplan fit the length to serve."
        )


def candidates(most: int) -> Iterator[tuple[int, int]]:
    """Tensor and pipeline sizes by the number of GPUs, and among the same by how far a layer is split."""
    count = 1
    while count <= most:
        tensor = count
        while tensor:
            if count % tensor == 0:
                yield tensor, count // tensor
            tensor //= 2
        count *= 2


def _sized(one: Try, request: PlanRequest, inputs: Inputs) -> tuple[Try, Result]:
    """The choice with what it holds, and its plan without a budget. KvplanError where it cannot be planned."""
    result = plan_read(request, inputs, only_used=True)
    found = budget(result.config, inputs.target, inputs.drafter, None)
    least, expected, _ = found.interval
    requests = _requests(with_memory(request, result, expected))
    surely = _requests(with_memory(request, result, least)) if found.estimate is not None else None
    heaviest = max(stage.total for stage in found.weights)
    one = one._replace(weights=heaviest, memory=min(expected), requests=requests, surely=surely)
    return one._replace(why="" if requests else _too_small(found, result)), result


def _too_small(found: Budget, result: Result) -> str:
    if Sized(found).too_heavy is not None:
        return f"the weights alone take more than --gpu-memory-utilization {found.gpu_memory_utilization:g} allows"
    return f"one request of {result.config.max_model_len:,} tokens does not fit beside the weights"


def _requests(result: Result) -> int:
    """Requests that all engines serve at once: whole ones beside the null block, 0 where vLLM does not start."""
    plan, config = result.plans[result.selected], result.config
    if plan.error is not None or plan.num_blocks is None or not min(result.available_memory_bytes or (0,)):
        return 0
    held = config.max_num_seqs  # all that may run, where nothing is cached
    if plan.blocks_per_request:
        held = min(held, (plan.num_blocks - 1) // plan.blocks_per_request)
    return config.data_parallel_size * held
