"""A log's reading judged against the plan of its release. Prints nothing; configs are all that is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvplan import selection, sources
from kvplan.engine.args import EngineConfig
from kvplan.errors import KvplanError, Refused
from kvplan.logs.capacity import bytes_printed_as
from kvplan.logs.options import hub_id
from kvplan.logs.process import stage_of
from kvplan.logs.reading import LogReading
from kvplan.logs.rules import VERIFIED, Rules, neighbours, rules_for
from kvplan.pipeline import PlanRequest, plan
from kvplan.planning.layer_set import CannotPlan
from kvplan.report.numbers import plural
from kvplan.result import Result
from kvplan.sources import bundled, local
from kvplan.spec import CHUNKED_LOCAL, WINDOW_KINDS
from kvplan.units import GIB
from kvplan.verify.deployment import Deployment, as_printed, deployment, quantised_base
from kvplan.verify.device import devices, foreign
from kvplan.verify.lines import CAPACITY, Found, Line, Memory, compared, first_cause
from kvplan.verify.pool import ReleasePlan, needed_bytes, release_plan
from kvplan.verify.respec import Base
from kvplan.verify.unjudged import FOLLOW_FROM_A_REQUEST, all_unjudged, completed, refusal, withheld


class Wanted(NamedTuple):
    """What the command line says beside the log."""

    assume_engine: str | None = None
    model: str | None = None
    drafter: str | None = None
    gpu: str | None = None
    offline: bool = False
    engine: str = selection.RELEASED
    env: Mapping[str, str] = {}


class Verdict(NamedTuple):
    """A judged log."""

    reading: LogReading
    rules: Rules | None = None
    result: Result | None = None
    """The deployment as 0.33.0 plans it, which the release's plan starts from."""
    plan: ReleasePlan | None = None
    found: Found | None = None
    lines: tuple[Line, ...] = ()
    """Every number that the log has of what a plan says, judged or not."""
    first_cause: str | None = None
    refusal: str | None = None
    """Why the log cannot be judged."""
    notes: tuple[str, ...] = ()
    exact_bytes: int | None = None
    """The KV memory where the log tells its bytes."""

    @property
    def exit_code(self) -> int:
        """0: everything found agrees; 1: something differs; 2: it cannot be judged."""
        if self.refusal is not None:
            return 2
        return 1 if any(line.agrees is False for line in self.lines) else 0


def judge(reading: LogReading, wanted: Wanted) -> Verdict:
    """The verdict on one start-up. What cannot be judged is told in ``refusal``; nothing is raised for a log."""
    rules: Rules | None = None
    try:
        rules = rules_for(reading.version, assume=wanted.assume_engine, relevant=())
        try:
            name, notes = config_name(reading, wanted)
        except KvplanError as missing:
            return _by_base(reading, wanted, rules, missing)
        return _judged(reading, wanted, rules, name, notes)
    except KvplanError as error:
        return _refused(reading, rules, str(error))
    except CannotPlan as stop:
        return _refused(reading, rules, f"{str(stop).rstrip('.')}; the log's start-up got further.")


def _refused(reading: LogReading, rules: Rules | None, why: str) -> Verdict:
    return Verdict(reading, rules, lines=all_unjudged(reading, why), refusal=why)


def _judged(reading: LogReading, wanted: Wanted, rules: Rules, name: str | None, notes: tuple[str, ...]) -> Verdict:
    found = deployment(reading, rules, name, wanted.env, wanted.drafter)
    verdict = _best(reading, wanted, found, rules)
    return verdict._replace(notes=(*notes, *found.notes, *verdict.notes))


def _doubt(reading: LogReading, plan: ReleasePlan) -> tuple[str, frozenset[str] | None] | None:
    """Why lines that differ accuse nothing: what the plan was made with is not what the log says.

    The second value: the lines that depend on it, None for all.
    """
    device = foreign(reading)
    if device is not None:
        return (
            f"The log is of another device than CUDA's ({device}), whose cache is not verified to be what is planned "
            "here, and its numbers are not those of CUDA."
        ), None
    if reading.options is None:
        return (
            "The log does not hold the options it was started with, and vLLM's defaults do not give its numbers."
        ), None
    windows = any(layer.spec.kind in _RESERVING for layer in plan.layers)
    if windows and "max_num_batched_tokens" not in reading.options:
        return (
            "The log does not say its max_num_batched_tokens, which window layers reserve, and vLLM's default does not "
            "give its numbers."
        ), FOLLOW_FROM_A_REQUEST
    return None


_RESERVING = WINDOW_KINDS | {CHUNKED_LOCAL}


def _by_base(reading: LogReading, wanted: Wanted, rules: Rules, missing: KvplanError) -> Verdict:
    """The verdict by the bundled model that a quantised copy is named after, whose own config is not here.

    It can only confirm: a copy may cache otherwise than its base, so where it does not agree the log is not judged.
    """
    base = None if wanted.model is not None else quantised_base(reading.model or "", bundled.ids())
    if base is None:
        raise missing
    note = f"The config of {reading.model} is not here; it is planned as {base}, which it is named after."
    try:
        verdict = _judged(reading, wanted, rules, base, (note,))
    except (KvplanError, CannotPlan):
        raise missing from None
    if verdict.exit_code != 0:
        raise missing
    return verdict


def config_name(reading: LogReading, wanted: Wanted) -> tuple[str | None, tuple[str, ...]]:
    """The name to look the model's config up by, and what is to be said of it. KvplanError where there is none.

    A path of the server that printed the log is not here: its hub id (a cache directory's), or the bundled model that
    the directory is named after. Refused where that leaves nothing.
    """
    name = wanted.model or reading.model
    if wanted.model is not None or name is None or not _is_elsewhere(name):
        if name is not None:
            sources.resolve(name, offline=wanted.offline)
        return name, ()
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    id = hub_id(name)
    if id != name:
        sources.resolve(id, offline=wanted.offline)
        return id, ()
    if last and bundled.find(last) is not None:
        return last, (f"The log's model is the path {name}; it is planned as the bundled model of that name.",)
    raise Refused(f"The log's model is the path {name}, which is not here; name its config with --model.")


def _is_elsewhere(name: str) -> bool:
    """Whether the name is a path, and nothing is there on this machine."""
    return ("\\" in name or local.is_path(name)) and local.find(name) is None


def _check_architecture(reading: LogReading, result: Result) -> None:
    """Refused where the log names another architecture than the config that was found."""
    told, planned = reading.architecture, result.config.target.architecture
    if told is not None and told != planned:
        raise Refused(
            f"The log's model is a {told}, and {result.model.id} is a {planned}; name the right config with --model."
        )


def _best(reading: LogReading, wanted: Wanted, found: Deployment, rules: Rules) -> Verdict:
    """The GPU with which most agrees, of those that the log can be of."""
    names, told = devices(reading, wanted.gpu)
    verdicts: list[tuple[str, Verdict]] = []
    first_error: KvplanError | CannotPlan | None = None
    for name in names:
        try:
            verdict = _on(reading, wanted, found, rules, name)
        except (KvplanError, CannotPlan) as error:
            first_error = first_error or error
            continue
        verdicts.append((name, verdict))
        if verdict.exit_code == 0:
            break
    if not verdicts:
        assert first_error is not None
        raise first_error
    name, best = max(verdicts, key=lambda pair: _worth(pair[1]))
    if told or not best.lines:
        return best
    return best._replace(notes=(*best.notes, _assumed(name, best.exit_code == 0)))


def _worth(verdict: Verdict) -> tuple[bool, int]:
    """Of two GPUs the one with which everything agrees, else more."""
    return verdict.exit_code == 0, sum(line.agrees is True for line in verdict.lines)


def _assumed(name: str, agrees: bool) -> str:
    how = "with which everything agrees" if agrees else "the nearest of those tried"
    return f"The log does not name its GPU; it is planned on {name}, {how} (--gpu names another)."


def _on(reading: LogReading, wanted: Wanted, found: Deployment, rules: Rules, gpu: str) -> Verdict:
    request = PlanRequest(args=found.args, gpu=gpu, offline=wanted.offline)
    result = plan(request)
    args = as_printed(found.args, result.config, reading, rules)
    if args != found.args:
        result = plan(request._replace(args=args))
    _check_architecture(reading, result)
    layout, notes = _layout(reading, result, rules)
    notes += _length_note(result, found)
    base = Base(result.config, result.layers, result.block_size, result.mamba_block_size)

    def planned(rules: Rules) -> ReleasePlan:
        return release_plan(
            rules,
            base,
            layout=layout,
            told_mode=found.told_mode,
            told_v2_runner=None if reading.model_runner is None else reading.model_runner == "V2",
            min_kv_cache_group_layers=found.args.min_kv_cache_group_layers if wanted.engine == selection.NEXT else None,
        )

    rules, made = placed(reading, wanted, planned)
    compare = _of_one_engine(reading, result)
    memory = memory_of(compare, result, wanted)
    judged, best = compared(compare, made, memory)
    lines = _trusted(completed(reading, judged, made, memory), reading, made, best, memory)
    cause = first_cause(lines, made, best, reading.max_model_len)
    first = None if memory.stages is None else memory.stages[0]
    exact = first[0] if first is not None and len(first) == 1 else None
    return Verdict(reading, rules, result, made, best, lines, cause, refusal(lines), notes, exact)


def _trusted(
    lines: tuple[Line, ...], reading: LogReading, made: ReleasePlan, best: Found | None, memory: Memory
) -> tuple[Line, ...]:
    """The lines without a judgement on what the log leaves open."""
    unsure = _missing_ranks(made, best, memory)
    if unsure is not None:
        lines = withheld(lines, unsure, frozenset(CAPACITY), (True, False))
    doubt = _doubt(reading, made)
    return lines if doubt is None else withheld(lines, *doubt, (False,))


def _of_one_engine(reading: LogReading, result: Result) -> LogReading:
    """The reading without a number of blocks that is the sum of several engines' (vllm/v1/engine/core_client.py)."""
    engines = max(reading.counted_engines, result.config.data_parallel_size)
    return reading if engines == 1 else reading._replace(num_gpu_blocks=None)


def _missing_ranks(made: ReleasePlan, found: Found | None, memory: Memory) -> str | None:
    """Why the log leaves open whether its pool is the planned one: the rank that has least is not in it."""
    if found is None or not found.below:
        return None
    shown, world = memory.ranks
    gib = max(made.block_bytes) * found.num_blocks / GIB
    return (
        f"The log shows the KV memory of {plural(shown, 'rank')} of {world}, and the rank that has least decides: all "
        f"numbers are those of {found.num_blocks:,} blocks, {gib:.2f} GiB on another rank; verify the log of all ranks."
    )


def _layout(reading: LogReading, result: Result, rules: Rules) -> tuple[str, tuple[str, ...]]:
    """The layout to plan under: 0.33.0's, or before it the log's own, as only 0.33.0's preference was verified."""
    told, own = reading.layout, result.layout.name
    if told is None or told == own or rules.release == VERIFIED[-1] or told not in result.layout.candidates:
        return own, ()
    return told, (f"The layout {told} is the log's; 0.33.0 would take {own}.",)


def _length_note(result: Result, found: Deployment) -> tuple[str, ...]:
    if result.config.max_model_len != found.max_model_len:
        return (f"0.33.0 would cut max_model_len to {result.config.max_model_len:,}; the log's is planned.",)
    return ()


def placed(reading: LogReading, wanted: Wanted, planned: Callable[[Rules], ReleasePlan]) -> tuple[Rules, ReleasePlan]:
    """The rules of the log's version and the plan by them.

    A development build is taken where the releases before and after it print the same for this deployment. Refused
    where they do not.
    """
    around = None if wanted.assume_engine is not None else neighbours(reading.version)
    if around is None:
        rules = rules_for(reading.version, assume=wanted.assume_engine, relevant=())
        return rules, planned(rules)
    before, after = around
    first, second = planned(before), planned(after)
    if _shape(first, reading) != _shape(second, reading):
        raise Refused(
            f"vLLM {reading.version} lies between {before.release} and {after.release}, which plan this deployment "
            f"differently ({_difference(first, second, reading)}); name the one it follows with --assume-engine."
        )
    basis = f"{reading.version} lies between {before.release} and {after.release}, which agree here"
    rules = before._replace(basis=basis)
    return rules, first._replace(rules=rules)


def _shape(made: ReleasePlan, reading: LogReading) -> dict[str, object]:
    """All that the log's numbers follow from."""
    length = reading.max_model_len or made.limits.max_model_len
    return {
        "block sizes": made.sizes[:1] + made.sizes[2:],
        "bytes of a block": made.block_bytes,
        "blocks of a request": sorted(made.group_blocks(length)),
        "what a request needs": needed_bytes(made, length) if reading.refusal is not None else (),
        "token line": [made.printed(number, length) for number in (997, 99_991)],
    }


def _difference(one: ReleasePlan, other: ReleasePlan, reading: LogReading) -> str:
    first, second = _shape(one, reading), _shape(other, reading)
    return ", ".join(name for name in first if first[name] != second[name])


def memory_of(reading: LogReading, result: Result, wanted: Wanted) -> Memory:
    """The KV memory that the log allows: what is told in bytes, else all values that print as its GiB."""
    override = result.config.args.num_gpu_blocks_override
    if override is not None:
        return Memory(None, override)
    memory = reading.memory
    printed = reading.available_kv_cache_gib if memory.reduced_kv_cache_gib is None else memory.reduced_kv_cache_gib
    if printed is None:
        return Memory(None, reading.num_gpu_blocks, blocks_are_the_log_s=reading.num_gpu_blocks is not None)
    config = result.config
    stages = config.pipeline_parallel_size
    world = stages * config.tensor_parallel_size * config.prefill_context_parallel_size
    if reading.available_from == "reserved":  # --kv-cache-memory-bytes: every rank's
        shown: int = world
        told: tuple[float | None, ...] = (printed,) * stages
    else:
        shown, told = _shown(reading, config.data_parallel_size, world), _per_stage(reading, printed, config)
    ranges = [None if gib is None else bytes_printed_as(gib) for gib in told]
    exact = memory.kv_cache_bytes
    if exact is not None and stages == 1 and ranges[0] is not None and exact in ranges[0]:
        ranges = [range(exact, exact + 1)]
    if any(each is not None and (not each or each[0] < 0) for each in ranges):
        raise Refused(f"The log's KV memory of {printed} GiB is not one that vLLM prints for a start-up that serves.")
    return Memory(tuple(ranges), ranks=(shown, world))


def _shown(reading: LogReading, engines: int, world: int) -> int:
    """Ranks of the engine whose memory the log shows. Refused where several engines' ranks cannot be told apart."""
    ranks = reading.memory.available_gib
    if engines > 1 and len(ranks) > world:
        raise Refused("The log's ranks do not tell to which of its engines they belong; verify one engine's lines.")
    return len(ranks)


def _per_stage(reading: LogReading, smallest: float, config: EngineConfig) -> tuple[float | None, ...]:
    """GiB on each pipeline stage: its smallest rank's that the log shows, None where it shows none."""
    stages = config.pipeline_parallel_size
    if stages == 1:
        return (smallest,)
    found: dict[int, float] = {}
    for rank, gib in reading.memory.available_gib:
        stage = stage_of(rank, config.tensor_parallel_size)
        for each in range(stages) if stage is None else (stage,):
            found[each] = min(gib, found.get(each, gib))
    return tuple(found.get(stage) for stage in range(stages))
