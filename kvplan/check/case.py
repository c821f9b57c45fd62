"""A deployment with everything that decides its plan, so that it can be planned, recorded and planned again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.budget import Budget, Derive, Rest, Weights, budget, derived
from kvplan.check.fleet import Deployment
from kvplan.engine.args import EngineArgs, EngineConfig
from kvplan.errors import KvplanError
from kvplan.inputs import Inputs, inputs_of, read
from kvplan.pipeline import PlanRequest, plan_read, with_memory
from kvplan.result import Result
from kvplan.sources import Source

ADVICE = "give kv_cache_memory, or non_kv_memory (what a start-up takes besides weights and KV cache), per rank"


_NOT_OF_WEIGHTS: dict[str, Any] = {
    "gpu_memory_utilization": 0.0,
    "kv_cache_memory_bytes": None,
    "num_gpu_blocks_override": None,
    "max_num_seqs": None,
    "max_num_batched_tokens": None,
    "block_size": None,
    "enable_prefix_caching": None,
}
"""Options that no weight depends on, and what stands for any value of them."""


class Case(NamedTuple):
    """The inputs of one plan."""

    args: EngineArgs
    gpu: str | None
    engine: str
    memory: tuple[int, ...] | None
    target: Source
    drafter: Source | None
    trained_draft_length: bool = False
    non_kv_memory: int | None = None
    weight_dtypes: tuple[str, ...] = ()
    """As `kvplan.inputs.Inputs.weight_dtypes`."""


class Planned(NamedTuple):
    """The plan of a case. Where its budget is estimated: with the least memory that may be left for the KV cache."""

    result: Result
    most: Result | None = None
    """The plan with the most that may be left; None where the budget is no estimate."""
    budget: Budget | None = None
    """What the GPU gives; None where the budget was given."""


class Reader:
    """Reads each model once, however many deployments serve it."""

    def __init__(self, *, offline: bool) -> None:
        self.offline = offline
        self._read: dict[tuple[str, str], tuple[EngineArgs, Inputs] | KvplanError] = {}
        self._inputs: dict[tuple[int, int], Inputs] = {}
        self._weights: dict[tuple[Any, ...], tuple[tuple[Weights, ...], str]] = {}
        self._kept: list[Source] = []

    def case(self, deployment: Deployment) -> Case:
        """The case of a deployment whose words were read. KvplanError for configs that cannot be found or read."""
        if deployment.args is None:
            raise KvplanError(deployment.error or "the deployment cannot be read.")
        args = deployment.args
        options: Mapping[str, Any] = args.speculative_config or {}
        key = (args.model, str(options.get("model")))
        if key not in self._read:
            try:
                self._read[key] = read(args, offline=self.offline)
            except KvplanError as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, KvplanError):
            raise found
        served, inputs = found
        if served.model != args.model:  # a speculators drafter stands for its target
            args = read(args, offline=self.offline)[0]
        self._remember(inputs.target, inputs.drafter, inputs)
        own, trained = deployment, deployment.own_drafter
        return Case(
            args,
            own.gpu,
            own.engine,
            own.memory,
            inputs.target,
            inputs.drafter,
            trained,
            own.non_kv_memory,
            inputs.weight_dtypes,
        )

    def plan(self, case: Case) -> Planned:
        """The plan of a case: the grouping that the engine uses alone. Without a budget the GPU gives one.

        Raises as `kvplan.pipeline.plan` does, and KvplanError where the GPU's budget is not known.
        """
        request = PlanRequest(
            args=case.args,
            gpu=case.gpu,
            engine=case.engine,
            offline=self.offline,
            available_memory_bytes=case.memory,
            trained_draft_length=case.trained_draft_length,
        )
        inputs = self._inputs_of(case)
        result = plan_read(request, inputs, only_used=True)
        if result.available_memory_bytes is not None or not needs_budget(result):
            return Planned(result)
        found = self._budget(case, result)
        least, _, most = found.interval
        planned = with_memory(request, result, least)
        return Planned(planned, None if found.rest is not None else with_memory(request, result, most), found)

    def _budget(self, case: Case, result: Result) -> Budget:
        """The budget that the GPU gives. KvplanError, with what to give in its place, where it is not known."""
        rest = None if case.non_kv_memory is None else Rest(case.non_kv_memory, "non_kv_memory")
        if case.gpu is None:
            raise KvplanError(f"without a gpu there is no KV budget; name it, or {ADVICE}.")
        try:
            found = budget(result.config, case.target, case.drafter, rest, derive=self._weights_of(case))
        except KvplanError as error:
            why = str(error).partition("; give")[0].rstrip(".")
            raise KvplanError(f"the GPU's KV budget is not known ({why}); {ADVICE}.") from None
        if rest is None and found.estimate is None:
            raise KvplanError(
                f"gpu {case.gpu}: what a start-up takes is not known, as it shares the CPU's memory; {ADVICE}."
            )
        return found

    def _weights_of(self, case: Case) -> Derive:
        """What derives the weights of a case, once for all cases whose weights are the same."""

        def derive(config: EngineConfig, target: Source, drafter: Source | None) -> tuple[tuple[Weights, ...], str]:
            args = repr(case.args._replace(**_NOT_OF_WEIGHTS))
            key = (id(target), id(drafter), case.gpu, case.weight_dtypes, case.trained_draft_length, args)
            if key not in self._weights:
                self._weights[key] = derived(config, target, drafter)
            return self._weights[key]

        return derive

    def _inputs_of(self, case: Case) -> Inputs:
        key = (id(case.target), id(case.drafter))
        if key not in self._inputs:
            self._remember(case.target, case.drafter, inputs_of(case.target, case.drafter))
        return self._inputs[key]._replace(weight_dtypes=case.weight_dtypes)

    def _remember(self, target: Source, drafter: Source | None, inputs: Inputs) -> None:
        self._inputs[(id(target), id(drafter))] = inputs
        self._kept += [target] if drafter is None else [target, drafter]  # an id stays theirs while they live


def needs_budget(result: Result) -> bool:
    """Whether the plan has a cache and starts, and its blocks are still unknown."""
    plan = result.plans[result.selected]
    return bool(plan.groups) and plan.error is None and plan.num_blocks is None


def recorded(case: Case) -> dict[str, Any]:
    """The case as plain values; configs by the id under which `configs` keeps them."""
    args = case.args
    given = {
        key: value for key, value in args._asdict().items() if value != EngineArgs._field_defaults.get(key, object)
    }
    given.pop("model")
    env = given.pop("env", {})
    return {
        "engine": case.engine,
        "gpu": case.gpu,
        "kv_cache_memory": None if case.memory is None else list(case.memory),
        "model": args.model,
        "options": _plain(given),
        "env": dict(sorted(env.items())),
        "target": case.target.id,
        "drafter": None if case.drafter is None else case.drafter.id,
        "trained_draft_length": case.trained_draft_length,
        "non_kv_memory": case.non_kv_memory,
        "weight_dtypes": list(case.weight_dtypes),
    }


def config_record(source: Source) -> dict[str, Any]:
    """A config as the lock keeps it, with the files beside it that vLLM reads."""
    found: dict[str, Any] = {"config": source.config}
    return {**found, "files": dict(source.beside)} if source.beside else found


def restored(record: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]]) -> Case:
    """The case of a record. KeyError, TypeError or ValueError where the record is not one that kvplan wrote."""
    options: dict[str, Any] = {
        key: tuple(v) if key == "kv_cache_dtype_skip_layers" else v for key, v in record["options"].items()
    }
    unknown = set(options) - set(EngineArgs._fields)
    if unknown:
        raise ValueError(f"unknown option {min(unknown)}")
    args = EngineArgs(model=record["model"], env=dict(record["env"]), **options)
    memory, drafter = record["kv_cache_memory"], record["drafter"]
    return Case(
        args,
        record["gpu"],
        record["engine"],
        None if memory is None else tuple(memory),
        _source(record["target"], configs),
        None if drafter is None else _source(drafter, configs),
        record["trained_draft_length"],
        record["non_kv_memory"],
        tuple(record["weight_dtypes"]),
    )


def _source(id: str, configs: Mapping[str, Mapping[str, Any]]) -> Source:
    kept = configs[id]
    files = dict(kept.get("files", {}))
    return Source(id, "lock", kept["config"], f"kvplan.lock: {id}", read_file=files.get, names=lambda: files)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
