"""A planned deployment: runs the steps in order, from flags and configs to a Result. Decides nothing itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvplan import gpus, hf, layout, selection, sources
from kvplan.cache import stages
from kvplan.cache.build import Stage, build
from kvplan.connectors import deployment_layout
from kvplan.drafters.checks import split_over_groups
from kvplan.engine import speculators
from kvplan.engine.args import EngineArgs, EngineConfig, ModelFacts
from kvplan.engine.dtype import config_dtype
from kvplan.engine.facts import model_type, num_hidden_layers
from kvplan.engine.hybrid_manager import connector
from kvplan.engine.resolve import resolve
from kvplan.errors import KvplanError
from kvplan.kernel_blocks import kernel_blocks
from kvplan.model import DRAFTER
from kvplan.planning import MAIN, PACKED, UNIFORM, plan_layers
from kvplan.result import DrafterInfo, Layout, ModelInfo, Plan, Reason, Result
from kvplan.sides import sides
from kvplan.sources import Source
from kvplan.spec import CacheLayer, Limits, StateSpec

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


class Inputs(NamedTuple):
    """The configs of a deployment, read: what several plans of the same models share."""

    target: Source
    reading: hf.Reading
    drafter: Source | None
    drafter_facts: ModelFacts | None
    weight_dtypes: tuple[str, ...] = ()
    """`ModelFacts.weight_dtypes` of the target."""


def read(args: EngineArgs, *, offline: bool) -> tuple[EngineArgs, Inputs]:
    """The deployment's configs, and the options; a speculators drafter stands for its target with it as the drafter.

    KvplanError for a config that cannot be found or read.
    """
    target = _source(args, args.model, offline)
    if target.config.get("speculators_config") is not None:
        args = speculators.redirect(args, hf.read_drafter(target).root)
        target = _source(args, args.model, offline)
    return args, inputs_of(target, _drafter_source(args, offline))


def _source(args: EngineArgs, name: str, offline: bool) -> Source:
    """A model's config, as vLLM reads it: its params.json where that lies beside weights of its format."""
    source = sources.resolve(name, offline=offline)
    if args.additional_flags.get("config_format") == "hf" or not source.has_mistral_format:
        return source
    from kvplan.hf.mistral_format import as_vllm_reads

    return as_vllm_reads(source)


def inputs_of(target: Source, drafter: Source | None) -> Inputs:
    """The configs, read with the defaults of their classes. KvplanError for a field that cannot be used."""
    reading = hf.read(target)
    return Inputs(target, reading, drafter, _drafter_facts(drafter), _weight_dtypes(target, reading))


def plan(request: PlanRequest) -> Result:
    """Plan one deployment.

    Raises KvplanError for unreadable input and Refused for what vLLM refuses or kvplan cannot judge; a deployment that
    only lacks memory is planned, with vLLM's sentence in ``error``.
    """
    args, inputs = read(request.args, offline=request.offline)
    return plan_read(request._replace(args=args), inputs)


def plan_read(request: PlanRequest, inputs: Inputs, *, only_used: bool = False) -> Result:
    """Plan a deployment whose configs are read.

    ``only_used``: leave out the groupings that the engine does not use. Raises as `plan` does.
    """
    args = request.args
    gpu = gpus.find(request.gpu or DEFAULT_GPU)
    assumed: tuple[str, ...] = () if request.gpu else (f"GPU {DEFAULT_GPU}, as none was given (--gpu)",)
    if request.trained_draft_length and inputs.drafter_facts is not None:
        args, told = with_trained_length(args, inputs.drafter_facts)
        assumed += told
    facts = _facts(inputs.target, inputs.reading)._replace(weight_dtypes=inputs.weight_dtypes)
    config = resolve(args, facts, inputs.drafter_facts, gpu)
    _check_weights(config, inputs)
    counts = stages.layer_counts(
        num_hidden_layers(config.target.root, config.target.text),
        config.pipeline_parallel_size,
        args.env.get("VLLM_PP_LAYER_PARTITION"),
    )
    built = build(sides(config), config, counts)
    layers = tuple(layer for stage in built for layer in stage.layers)
    planner = _Planner(request, config, layers)
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
    planner = _Planner(request._replace(available_memory_bytes=memory), result.config, result.layers)
    plans = {name: planner.plan(name, result.layout.name, used=name == result.selected) for name in result.plans}
    return result._replace(plans=plans, available_memory_bytes=planner.memory)


def _check_weights(config: EngineConfig, inputs: Inputs) -> None:
    """What vLLM refuses as it builds the model: what does not divide over several ranks."""
    if config.tensor_parallel_size > 1:
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


class _Planner:
    """The three groupings of one deployment under a layout, each planned once."""

    def __init__(self, request: PlanRequest, config: EngineConfig, layers: tuple[CacheLayer, ...]) -> None:
        args = request.args
        self.layers = layers
        self.config = config
        self.minimum = args.min_kv_cache_group_layers
        self.memory = request.available_memory_bytes
        if self.memory is not None and len(self.memory) != config.pipeline_parallel_size:
            raise KvplanError(
                f"--kv-cache-memory-bytes lists {len(self.memory)} sizes for --pipeline-parallel-size "
                f"{config.pipeline_parallel_size}; give one for each stage, or one for all."
            )
        if self.memory is None and args.kv_cache_memory_bytes:  # vLLM measures for 0 as for no flag
            self.memory = (args.kv_cache_memory_bytes,) * config.pipeline_parallel_size
        self.limits = Limits(
            max_model_len=config.max_model_len,
            max_in_flight_tokens=config.max_in_flight_tokens,
            mamba_cache_mode=config.mamba_cache_mode,
            decode_context_parallel_size=config.decode_context_parallel_size,
            max_num_encoder_input_tokens=config.max_num_encoder_input_tokens,
        )

    def plan(self, grouping: str, layout_name: str, *, used: bool) -> Plan:
        """The deployment's plan under one grouping, with its kernel blocks.

        ``used``: whether the engine uses it; then a cache that its workers cannot bind keeps it from starting.
        """
        made = self._plan(self.layers, grouping, layout_name, self.memory, self.config.pipeline_parallel_size)
        drafted = [layer.name for layer in self.layers if layer.owner == DRAFTER]
        split = split_over_groups(self.config, drafted, [group.layers for group in made.groups])
        made = with_kernel_blocks(made, self.layers, used=used, died=split)
        told = too_many_sequences(made, self.config, self.layers)
        return made if told is None else made._replace(notes=(*made.notes, told))

    def worker_plan(self, layers: tuple[CacheLayer, ...], grouping: str, layout_name: str) -> Plan:
        """The plan of one worker's layers alone, without a budget: what its layout preference reckons with."""
        own = tuple(layer._replace(stage=0) for layer in layers)
        return self._plan(own, grouping, layout_name, None, 1)

    def _plan(
        self,
        layers: tuple[CacheLayer, ...],
        grouping: str,
        layout_name: str,
        memory: tuple[int, ...] | None,
        stages: int,
    ) -> Plan:
        config, speculative = self.config, self.config.speculative
        return plan_layers(
            layers,
            self.limits,
            grouping=grouping,
            layout=layout_name,
            available_memory=memory,
            pipeline_parallel_size=stages,
            disable_hybrid_kv_cache_manager=config.disable_hybrid_kv_cache_manager,
            num_gpu_blocks_override=config.args.num_gpu_blocks_override,
            min_kv_cache_group_layers=self.minimum,
            use_eagle_block_drop=speculative is not None and speculative.use_eagle_block_drop,
            num_prefill_lookahead_tokens=0 if speculative is None else speculative.num_prefill_lookahead_tokens,
            auto_fit_max_model_len=config.args.max_model_len == -1 and memory is not None,
        )


def too_many_sequences(made: Plan, config: EngineConfig, layers: tuple[CacheLayer, ...]) -> str | None:
    """What vLLM says of fewer blocks than sequences where it captures full CUDA graphs of state layers.

    Each decoding sequence needs a state block (vllm/config/compilation.py, `resolve_cudagraph_mode_and_sizes`).
    """
    blocks, sequences = made.num_blocks, config.max_num_seqs
    eager = config.args.additional_flags.get("enforce_eager") is True
    has_states = any(isinstance(layer.spec, StateSpec) for layer in layers)
    if made.error is not None or blocks is None or sequences <= blocks or eager or not has_states:
        return None
    return (
        f"--max-num-seqs {sequences} is more than the {blocks:,} blocks of the pool: with full CUDA graphs, its "
        f"default, vLLM does not start; set --max-num-seqs {blocks} or less"
    )


def with_kernel_blocks(made: Plan, layers: tuple[CacheLayer, ...], *, used: bool, died: str | None = None) -> Plan:
    """The plan with each group's kernel block size, and what a cache that cannot be bound dies of.

    That is the plan's error where it is ``used`` and has no other, and a note where it is not. ``died``: what the
    workers die of besides.
    """
    if not made.groups:
        return made
    stages = len(made.bytes_per_block_per_stage) or 1
    bound = kernel_blocks(made, layers)
    errors = [bound.error, died] + [kernel_blocks(made, layers, stage).error for stage in range(1, stages)]
    sizes = bound.group_sizes + (None,) * (len(made.groups) - len(bound.group_sizes))
    groups = tuple(group._replace(kernel_block_size=size) for group, size in zip(made.groups, sizes, strict=True))
    told = list(dict.fromkeys(error for error in errors if error is not None))
    error = made.error
    if used and error is None and told:
        error = told.pop(0)
    return made._replace(groups=groups, notes=(*made.notes, *told), error=error)


def _layout(request: PlanRequest, config: EngineConfig, built: tuple[Stage, ...], planner: _Planner) -> Layout:
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


def _conditions(request: PlanRequest, stage: Stage, planner: _Planner) -> tuple[Reason, ...]:
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


def _facts(source: Source, reading: hf.Reading) -> ModelFacts:
    files = source.beside
    outside = None if source.config.get("quantization_config") is not None else files.get("hf_quant_config.json")
    return ModelFacts(source.id, reading.root, hf_quant_config=outside, files=files)


def _weight_dtypes(source: Source, reading: hf.Reading) -> tuple[str, ...]:
    """What the checkpoint's headers say; they are read only where the config names no dtype."""
    if config_dtype(reading.root, reading.text) is not None:
        return ()
    from kvplan.weights.stored_dtype import stored_dtypes

    return stored_dtypes(source)


def _drafter_source(args: EngineArgs, offline: bool) -> Source | None:
    """The drafter that --speculative-config names; None for a method that needs no model of its own."""
    named: Mapping[str, object] = args.speculative_config or {}
    name = named.get("model")
    if name is None or name in ("ngram", "[ngram]", "suffix", "ngram_gpu"):
        return None
    if not isinstance(name, str):
        raise KvplanError(f"--speculative-config: model must be a string, got {name!r}.")
    from kvplan.engine.speculative import requested_method

    if requested_method(named) == "custom_class":  # refused when the options are resolved
        return None
    return _source(args, name, offline)


def _drafter_facts(source: Source | None) -> ModelFacts | None:
    return None if source is None else _facts(source, hf.read_drafter(source))


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
