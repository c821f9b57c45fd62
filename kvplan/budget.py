"""From a GPU to the memory of its KV cache: what is requested, less the weights, less what else a start-up takes.

requested = ceil(usable x --gpu-memory-utilization) (`request_memory`, vllm/v1/worker/utils.py); the KV cache gets what
the weights and the profile run leave of it (`determine_available_memory`, vllm/v1/worker/gpu_worker.py). Weights are
derived from the configs, as vLLM creates them. The rest (activations, CUDA graphs, CUDA's own memory) is measured by
vLLM: it is given, or read of a start-up's log, or else estimated (`kvplan.estimates`), which makes the result an
interval.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.errors import KvplanError
from kvplan.estimates import Estimate, estimate
from kvplan.result import Plan
from kvplan.sources import Source

GIVEN = "--weights-bytes"
DERIVED = "derived from the configs"
EXACT = "exact: derived from the configs, and as large as"
"""Followed by what of the checkpoint's own files says so."""


class Weights(NamedTuple):
    """Bytes of parameters and buffers on the first rank of a pipeline stage."""

    target: int
    drafter: int = 0

    @property
    def total(self) -> int:
        return self.target + self.drafter


Derive = Callable[[EngineConfig, Source, "Source | None"], tuple[tuple[Weights, ...], str]]
"""What derives the weights of each stage's first rank, and says how sure they are."""


class Rest(NamedTuple):
    """What a start-up takes besides weights and KV cache, per rank."""

    bytes: int
    source: str
    """A flag, or the log that it was read of."""


class Budget(NamedTuple):
    """The memory of one rank of each pipeline stage."""

    usable_bytes: int
    """Of the GPU, as CUDA reports it."""
    gpu_memory_utilization: float
    weights: tuple[Weights, ...]
    weights_source: str
    rest: Rest | None
    """None: not known; ``memory`` then is more than vLLM can give the KV cache."""
    estimate: Estimate | None = None
    """What takes the place of a rest that is not known; None where it cannot be estimated either."""

    @property
    def requested_bytes(self) -> int:
        return ceil(self.usable_bytes * self.gpu_memory_utilization)

    @property
    def memory(self) -> tuple[int, ...]:
        """KV budget per stage, at least 0: exact but for ``rest``, a bound where that is not known."""
        return self.less(0 if self.rest is None else self.rest.bytes)

    @property
    def interval(self) -> tuple[tuple[int, ...], ...]:
        """KV budgets per stage: the least, the expected and the most; all the same where nothing is estimated."""
        if self.rest is not None or self.estimate is None:
            return (self.memory,) * 3
        return tuple(self.less(taken) for taken in (self.estimate.most, self.estimate.bytes, self.estimate.least))

    def less(self, taken: int) -> tuple[int, ...]:
        """What is requested less the weights and ``taken``, per stage and at least 0."""
        return tuple(max(0, self.requested_bytes - stage.total - taken) for stage in self.weights)

    def document(self) -> dict[str, Any]:
        """The budget as JSON: bytes per rank, a number for each pipeline stage where there may be several.

        ``source`` says how far to trust ``bytes``: given (the rest was), estimated, or a bound.
        """
        least, expected, most = self.interval
        lines = () if self.rest is not None or self.estimate is None else self.estimate.lines
        return {
            "source": "given" if self.rest is not None else "estimated" if self.estimate is not None else "bound",
            "requested_bytes": self.requested_bytes,
            "weights_bytes": [stage.total for stage in self.weights],
            "drafter_bytes": [stage.drafter for stage in self.weights],
            "weights_source": self.weights_source,
            "rest_bytes": None if self.rest is None else self.rest.bytes,
            "bytes": list(expected),
            "low": list(least),
            "high": list(most),
            "lines": [{"what": line.what, "bytes": line.bytes, "how": line.how} for line in lines],
        }


class Sized(NamedTuple):
    """The budget of a GPU, and the plan that the engine uses with it."""

    budget: Budget
    plans: tuple[Plan, ...] = ()
    """With the least, the expected and the most memory; none where the budget is no estimate."""

    @property
    def too_heavy(self) -> Weights | None:
        """The weights of a stage that leave nothing of what vLLM may use; None where all leave some."""
        return next((own for own in self.budget.weights if own.total >= self.budget.requested_bytes), None)


def budget(
    config: EngineConfig,
    target: Source,
    drafter: Source | None,
    rest: Rest | None,
    weights_bytes: int | None = None,
    derive: Derive | None = None,
) -> Budget:
    """The budget of a deployment. Refused by name for a quantisation or a class whose weights are not known.

    ``weights_bytes``: of each rank, in place of what is derived. ``derive``: what derives them, in place of `derived`.
    """
    usable = config.gpu.usable_memory_bytes
    if usable is None:
        raise KvplanError(
            f"--gpu {config.gpu.name}: how much memory CUDA reports is not known; give --kv-cache-memory-bytes."
        )
    if weights_bytes is not None:
        weights, source = (Weights(weights_bytes),) * config.pipeline_parallel_size, GIVEN
    else:
        weights, source = (derive or derived)(config, target, drafter)
    estimated = estimate(config) if rest is None else None
    return Budget(usable, config.args.gpu_memory_utilization, weights, source, rest, estimated)


def derived(config: EngineConfig, target: Source, drafter: Source | None) -> tuple[tuple[Weights, ...], str]:
    """The weights of each stage's first rank, as vLLM creates them from the configs, and how sure they are."""
    from kvplan.weights import checks

    found = checks.derived(config, target, drafter)
    weights = tuple(Weights(sum(t.bytes for t in s.target), sum(t.bytes for t in s.drafter)) for s in found.stages)
    if found.confirmed_by is not None:
        return weights, f"{EXACT} {found.confirmed_by}"
    return weights, f"{DERIVED}; {found.contradiction}" if found.contradiction else DERIVED


_OF_A_LOG = (
    'what memory was requested ("Free memory on device", or gpu_memory_utilization among its options)',
    'what the weights took ("Model loading took")',
    'what was left for the KV cache ("Available KV cache memory")',
)
"""What the rest of a start-up is reckoned from, and the words of a log that say it."""


def rest_of_log(path: str, usable_bytes: int | None) -> Rest:
    """What a start-up's log says was taken besides weights and KV cache, of the rank that was left the least.

    KvplanError, naming what is missing, where the log does not say what was requested, loaded and left.
    """
    from kvplan.logs import open_log, read_log

    try:
        with open(path, "rb") as stream:
            reading = read_log(open_log(stream))
    except OSError as error:
        raise KvplanError(f"--from-log {path}: cannot be read ({error.strerror}).") from None
    memory = reading.memory
    requested = memory.requested_gib
    if requested is None and memory.gpu_memory_utilization is not None:
        total = memory.total_gib if memory.total_gib is not None else (usable_bytes or 0) / 2**30
        requested = total * memory.gpu_memory_utilization
    if reading.available_from == "reserved":
        raise KvplanError(
            f"--from-log {path}: the log's KV memory was given with --kv-cache-memory-bytes and is not what was left; "
            "give --non-kv-memory-bytes."
        )
    found = (requested, memory.weights_gib, memory.available_gib)
    if not all(found):
        missing = " nor ".join(words for words, value in zip(_OF_A_LOG, found, strict=True) if not value)
        raise KvplanError(f"--from-log {path}: the log does not say {missing}; give --non-kv-memory-bytes.")
    assert requested is not None
    left = min(gib for _, gib in memory.available_gib)
    loaded = max(gib for _, gib in memory.weights_gib)
    return Rest(max(0, round((requested - loaded - left) * 2**30)), path)
