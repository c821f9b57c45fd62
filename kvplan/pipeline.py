"""A planned deployment: runs the steps in order, from flags and configs to a Result. Decides nothing itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvplan import gpus, layout, selection
from kvplan.cache.build import Stage, build
from kvplan.connectors import deployment_layout
from kvplan.engine.args import EngineArgs, EngineConfig, ModelFacts
from kvplan.engine.facts import model_type, num_hidden_layers
from kvplan.engine.hybrid_manager import connector
from kvplan.engine.resolve import resolve
from kvplan.engine.stages import layer_counts
from kvplan.errors import KvplanError
from kvplan.groupings import Planner
from kvplan.inputs import Inputs, read
from kvplan.planning import MAIN, PACKED, UNIFORM
from kvplan.result import DrafterInfo, Layout, ModelInfo, Reason, Result
from kvplan.sides import sides
from kvplan.sources import Source

DEFAULT_GPU = "B200"
STRICT = "strict"
INTERSECT = "intersect"
AGREEMENTS = (STRICT, INTERSECT)


class PlanRequest(NamedTuple):
    """What to plan: vLLM's flags, and kvplan's own choices."""

    args: EngineArgs
    gpu: str | None = None
    """GPU by name; None: DEFAULT_GPU is assumed, and said so."""
    engine: str = selection.RELEASED
    """vllm-0.33.0 | vllm-next."""
    offline: bool = False
    layout_cost_check: str = selection.PADDING
    layout_agreement: str = STRICT
    """Whether pipeline stages must report the same layouts in the same order (strict), or share some (intersect)."""
    trained_draft_length: bool = False
    """Where no draft length is given and vLLM has no default, take the one that a DFlash drafter was trained for."""
    available_memory_bytes: tuple[int, ...] | None = None
    """KV budget per pipeline stage; None: --kv-cache-memory-bytes on each."""
    assumed: tuple[str, ...] = ()
    """What the caller assumed, for `Result.assumed`."""


def plan(request: PlanRequest) -> Result:
    """Plan one deployment.

    Raises KvplanError for unreadable input and Refused for what vLLM refuses or kvplan cannot judge; a deployment that
    only lacks memory is planned, with vLLM's sentence in the ``error`` of its plans.
    """
    check(request)
    args, inputs = read(request.args, offline=request.offline)
    return plan_read(request._replace(args=args), inputs)


def check(request: PlanRequest) -> None:
    """KvplanError for a request with a value of another type or name than its fields take."""
    from kvplan.checked import check_args, check_choice, check_own

    if not isinstance(request, PlanRequest):
        raise KvplanError(f"plan takes a PlanRequest, not {type(request).__name__}; give PlanRequest(EngineArgs(...)).")
    check_args(request.args)
    check_own(request.gpu, request.available_memory_bytes, request.assumed)
    check_choice("engine", request.engine, selection.ENGINES)
    check_choice("layout_cost_check", request.layout_cost_check, selection.COST_CHECKS)
    check_choice("layout_agreement", request.layout_agreement, AGREEMENTS)


def plan_read(request: PlanRequest, inputs: Inputs, *, only_used: bool = False) -> Result:
    """Plan a deployment whose configs are read.

    ``only_used``: leave out the groupings that the engine does not use. Raises as `plan` does.
    """
    args = request.args
    gpu = gpus.find(DEFAULT_GPU if request.gpu is None else request.gpu)
    assumed = request.assumed
    if request.gpu is None:
        assumed += (f"GPU {DEFAULT_GPU}, as none was given (--gpu)",)
    if request.trained_draft_length and inputs.drafter_facts is not None:
        args, told = with_trained_length(args, inputs.drafter_facts)
        assumed += told
    config = resolve(args, inputs.target_facts, inputs.drafter_facts, gpu)
    _check_weights(config, inputs)
    counts = layer_counts(
        num_hidden_layers(config.target.root, config.target.text),
        config.pipeline_parallel_size,
        args.env.get("VLLM_PP_LAYER_PARTITION"),
    )
    built = build(sides(config), config, counts)
    layers = tuple(layer for stage in built for layer in stage.layers)
    planner = Planner(args, config, layers, request.available_memory_bytes)
    found = _layout(request, config, built, planner)
    selected = _selected(request.engine, found.name)
    names = (selected,) if only_used else (MAIN, UNIFORM, PACKED)
    return Result(
        engine=request.engine,
        model=_model_info(inputs.target, config),
        drafter=_drafter_info(inputs.drafter, config),
        config=config,
        block_size=built[0].sizes.block_size,
        mamba_block_size=built[0].sizes.mamba_block_size,
        layers=layers,
        layout=found,
        selected=selected,
        plans={name: planner.plan(name, found.name, used=name == selected) for name in names},
        available_memory_bytes=planner.memory,
        assumed=assumed,
        notes=_notes(inputs.target, inputs.drafter, config, found),
    )


def with_memory(request: PlanRequest, result: Result, memory: tuple[int, ...]) -> Result:
    """The result of ``request`` with another budget per pipeline stage: nothing but the pool depends on it."""
    planner = Planner(request.args, result.config, result.layers, memory)
    plans = {name: planner.plan(name, result.layout.name, used=name == result.selected) for name in result.plans}
    return result._replace(plans=plans, available_memory_bytes=planner.memory)


def _check_weights(config: EngineConfig, inputs: Inputs) -> None:
    """What vLLM refuses as it builds the model: what does not divide over several ranks.

    Experts are split over data-parallel ranks too.
    """
    if config.tensor_parallel_size * config.data_parallel_size * config.prefill_context_parallel_size > 1:
        from kvplan.weights.checks import check

        check(config, inputs.target, inputs.drafter)


def with_trained_length(args: EngineArgs, drafter: ModelFacts) -> tuple[EngineArgs, tuple[str, ...]]:
    """The options with the draft length of a DFlash drafter's block, less the token that anchors it.

    Unchanged where a length is given or the drafter names none. The second value says what was assumed.
    """
    options = args.speculative_config or {}
    section = drafter.root.section("dflash_config")
    if "num_speculative_tokens" in options or section is None:
        return args, ()
    block = drafter.root.optional_integer("block_size") or section.optional_integer("block_size", minimum=2)
    if block is None:
        return args, ()
    told = f"{block - 1} speculative tokens, the length that {drafter.name} was trained for (block_size {block})"
    return args._replace(speculative_config={**options, "num_speculative_tokens": block - 1}), (told,)


def _layout(request: PlanRequest, config: EngineConfig, built: tuple[Stage, ...], planner: Planner) -> Layout:
    """The resolved layout with its candidates, and under vllm-next the conditions of its preference, per stage."""
    intersect = request.layout_agreement == INTERSECT
    reported = [stage.layouts for stage in built]
    reasons: tuple[Reason, ...] = ()
    if request.engine == selection.NEXT:
        found = [_conditions(request, stage, planner) for stage in built]
        reported = [selection.preferred(names, own) for names, own in zip(reported, found, strict=True)]
        reasons = _told(found)
    agreed = layout.agree(reported, intersect=intersect)
    resolved = layout.resolve(
        agreed,
        [layer.spec for layer in planner.layers],
        requested=config.args.env.get(layout.ENVIRONMENT_VARIABLE),
        connector=_connector_layout(config),
    )
    return Layout(resolved.layout, agreed, reasons, resolved.warning, resolved.decided_by)


def _conditions(request: PlanRequest, stage: Stage, planner: Planner) -> tuple[Reason, ...]:
    """The conditions as one stage's worker finds them from its own layers."""
    first = stage.layouts[0]
    uniform, packed = (planner.worker_plan(stage.layers, name, first) for name in (UNIFORM, PACKED))
    return selection.conditions(stage.layers, uniform, packed, request.layout_cost_check)


def _told(found: Sequence[tuple[Reason, ...]]) -> tuple[Reason, ...]:
    """The conditions of all stages, each once for the stages that find the same of it, whichever layer they name."""
    out = []
    for each in zip(*found, strict=True):
        stages: dict[tuple[str, bool, str], list[int]] = {}
        for i, reason in enumerate(each):
            stages.setdefault((reason.condition, reason.holds, re.sub(r"(?<=\.)\d+(?=\.)", "", reason.why)), []).append(
                i
            )
        for own in stages.values():
            where = "" if len(own) == len(each) else f"{_stages(own)}, "
            out.append(each[own[0]]._replace(condition=where + each[own[0]].condition))
    return tuple(out)


def _stages(stages: Sequence[int]) -> str:
    """``stage 0``; ``stages 1 to 3``; ``stages 0 and 2``."""
    first, last = stages[0], stages[-1]
    if len(stages) == 1:
        return f"stage {first}"
    if len(stages) > 2 and last - first + 1 == len(stages):
        return f"stages {first} to {last}"
    return f"stages {', '.join(map(str, stages[:-1]))} and {last}"


def _connector_layout(config: EngineConfig) -> str | None:
    """The layout that the KV connector of the deployment asks for."""
    args = config.args
    offloading = connector(args) if args.additional_flags.get("kv_offloading_size") is not None else None
    return deployment_layout(args.kv_transfer_config, offloading, use_mla=config.use_mla)


def _notes(target: Source, drafter: Source | None, config: EngineConfig, found: Layout) -> tuple[str, ...]:
    """What the user should know of how the configs, the options and the layout came about."""
    return (
        *target.notes,
        *(() if drafter is None else drafter.notes),
        *config.notes,
        *(() if found.warning is None else (found.warning,)),
    )


def _selected(engine: str, layout_name: str) -> str:
    """The grouping that the engine really uses."""
    if layout.is_block_outermost(layout_name):
        return PACKED
    return MAIN if engine == selection.RELEASED else UNIFORM


def _model_info(source: Source, config: EngineConfig) -> ModelInfo:
    return ModelInfo(source.id, source.source, config.target.architecture, model_type(config.target.root) or None)


def _drafter_info(source: Source | None, config: EngineConfig) -> DrafterInfo | None:
    speculative = config.speculative
    if speculative is None:
        return None
    return DrafterInfo(
        id=source.id if source is not None else config.args.model,
        source=source.source if source is not None else "target",
        architecture=speculative.architecture,
        method=speculative.method,
        num_speculative_tokens=speculative.num_speculative_tokens,
    )
