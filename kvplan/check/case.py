"""A deployment with everything that decides its plan, so that it can be planned, recorded and planned again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.budget import Rest, budget
from kvplan.check.fleet import Deployment
from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.pipeline import Inputs, PlanRequest, inputs_of, plan_read, read
from kvplan.result import Result
from kvplan.sources import Source

_QUANT = "hf_quant_config.json"


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


class Reader:
    """Reads each model once, however many deployments serve it."""

    def __init__(self, *, offline: bool) -> None:
        self.offline = offline
        self._read: dict[tuple[str, str], tuple[EngineArgs, Inputs] | KvplanError] = {}
        self._inputs: dict[tuple[int, int], Inputs] = {}
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
        own, memory, trained = deployment, deployment.memory, deployment.own_drafter
        return Case(args, own.gpu, own.engine, memory, inputs.target, inputs.drafter, trained, own.non_kv_memory)

    def plan(self, case: Case) -> Result:
        """The plan of a case: the grouping that the engine uses alone. Raises as `kvplan.pipeline.plan` does."""
        request = PlanRequest(
            args=case.args,
            gpu=case.gpu,
            engine=case.engine,
            offline=self.offline,
            available_memory_bytes=case.memory,
            trained_draft_length=case.trained_draft_length,
        )
        inputs = self._inputs_of(case.target, case.drafter)
        result = plan_read(request, inputs, only_used=True)
        if case.non_kv_memory is None or result.available_memory_bytes is not None:
            return result
        rest = Rest(case.non_kv_memory, "non_kv_memory")
        memory = budget(result.config, case.target, case.drafter, rest).memory
        return plan_read(request._replace(available_memory_bytes=memory), inputs, only_used=True)

    def _inputs_of(self, target: Source, drafter: Source | None) -> Inputs:
        key = (id(target), id(drafter))
        if key not in self._inputs:
            self._remember(target, drafter, inputs_of(target, drafter))
        return self._inputs[key]

    def _remember(self, target: Source, drafter: Source | None, inputs: Inputs) -> None:
        self._inputs[(id(target), id(drafter))] = inputs
        self._kept += [target] if drafter is None else [target, drafter]  # an id stays theirs while they live


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
    }


def config_record(source: Source) -> dict[str, Any]:
    """A config as the lock keeps it, with its digest."""
    quantization = source.file(_QUANT)
    found: dict[str, Any] = {"digest": source.digest, "config": source.config}
    return found if quantization is None else {**found, _QUANT: quantization}


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
    )


def _source(id: str, configs: Mapping[str, Mapping[str, Any]]) -> Source:
    kept = configs[id]
    return Source(id, "lock", kept["config"], f"kvplan.lock: {id}", read_file=lambda name: kept.get(name))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
