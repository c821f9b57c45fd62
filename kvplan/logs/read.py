"""Read a start-up log: stream the lines, collect start-ups, return the one that says most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvplan.logs.reading import LogReading, MemoryReading, Refusal
from kvplan.logs.values import Value

if TYPE_CHECKING:
    from kvplan.logs.startup import Startup

_MAX_STREAMS = 64


def read_log(lines: Iterable[bytes | str]) -> LogReading:
    """The reading of a log given as physical lines, bytes or text; one pass, constant memory, never an error.

    Of several start-ups the one that came furthest is read, the last of equals. What a log does not hold is None in
    the reading and named by ``missing``. See lines.open_log for a file or pipe.
    """
    from kvplan.logs.facts import facts_of, wanted, wanted_without_blanks
    from kvplan.logs.lines import records
    from kvplan.logs.startup import Startup

    open_ones: dict[str, Startup] = {}
    best: Startup | None = None
    count = 0
    for record in records(lines, wanted, wanted_without_blanks):
        stream = record.stream if record.stream in open_ones or len(open_ones) < _MAX_STREAMS else ""
        for fact in facts_of(record):
            current = open_ones.get(stream)
            if current is None or current.begins_anew(fact, record):
                best = _better(best, current)
                current = open_ones[stream] = Startup()
                count += 1
            current.add(fact, record)
    for current in open_ones.values():
        best = _better(best, current)
    return _reading(best, count) if best else LogReading()


def _better(best: Startup | None, other: Startup | None) -> Startup | None:
    if best is None or other is None:
        return other or best
    return other if other.worth() >= best.worth() else best


def _reading(startup: Startup, startups: int) -> LogReading:
    from kvplan.logs.facts import integer
    from kvplan.logs.options import read_settings

    texts, last = startup.texts, startup.last
    settings = read_settings(texts.get("arguments"), texts.get("config"), *startup.messages())
    report = startup.report()
    weights = startup.rank_values("weights")
    available, available_from = _available(startup)
    architectures = [*startup.every.get("architecture", ()), None, None]
    length = _max_model_len(startup, settings.options)
    return LogReading(
        version=_version(texts.get("engine_version") or texts.get("version")),
        model=settings.model or texts.get("banner_model", "").strip() or texts.get("loading"),
        drafter=settings.drafter,
        options=settings.options,
        attention_block_size=_first_int(last.get("attention_block_size")),
        mamba_padding_pct=_first_float(last.get("mamba_padding")),
        padding_layers=tuple(layers for layers, _ in startup.padding),
        weights_gib=weights[0][1] if weights else None,
        available_kv_cache_gib=available,
        kv_cache_size_tokens=report.tokens if report else None,
        max_concurrency=report.concurrency if report else None,
        max_model_len=length,
        num_gpu_blocks=startup.num_blocks(),
        layout=last["layout"][0] if "layout" in last else None,
        memory=_memory(startup, settings.options),
        available_from=available_from,
        padding=tuple(startup.padding),
        refusal=_refusal(startup),
        failure=_failure(startup),
        engine=texts.get("generation"),
        model_runner=startup.model_runner if texts.get("generation") != "V0" else None,
        architecture=architectures[0],
        drafter_architecture=architectures[1],
        attention_backend=texts.get("attention_backend"),
        kv_cache_block_size=_first_int(last.get("kv_cache_block_size")),
        max_num_scheduled_tokens=integer(texts["scheduled_tokens"]) if "scheduled_tokens" in texts else None,
        arguments=settings.arguments,
        engine_config=settings.engine_config,
        counted_engines=startup.counted_engines,
        platform=last["platform"][0].rstrip(".") if "platform" in last else None,
        gpu=texts.get("gpu"),
        gpu_capability=texts.get("gpu_capability"),
        startups=startups,
        notes=tuple(_notes(startup, startups)),
    )


def _version(text: str | None) -> str | None:
    return text.rstrip(".-+_") if text else None


def _first_int(values: tuple[str, ...] | None) -> int | None:
    from kvplan.logs.facts import integer

    return integer(values[0]) if values else None


def _first_float(values: tuple[str, ...] | None) -> float | None:
    from kvplan.logs.facts import decimal

    return decimal(values[0]) if values else None


def _available(startup: Startup) -> tuple[float | None, str | None]:
    """The KV memory of the rank that has least, and which message told it."""
    ranks = startup.rank_values("available")
    if ranks:
        source = "reserved" if "reserved" in startup.texts else "available"
        return min(value for _, value in ranks), source
    if text := startup.texts.get("refused_available"):
        return _first_float((text,)), "refusal"
    return None, None


def _max_model_len(startup: Startup, options: dict[str, Value] | None) -> int | None:
    """The length that the tokens were computed for; "Using max model len" of a drafter comes second and is not it."""
    texts = startup.texts
    for text in (texts.get("request_length"), texts.get("refused_length")):
        if text:
            return _first_int((text,))
    if "fitted" in startup.last:
        return _first_int(startup.last["fitted"][1:])
    resolved = (options or {}).get("max_model_len")
    if isinstance(resolved, int) and resolved > 0:
        return resolved
    return _first_int(tuple(startup.every.get("max_model_len", ()))[:1])


def _memory(startup: Startup, options: dict[str, Value] | None) -> MemoryReading:
    from kvplan.logs.facts import decimal, integer

    last, texts = startup.last, startup.texts
    numbers: dict[str, float] = {}

    def take(name: str, *fields: str) -> None:
        for field, text in zip(fields, last.get(name, ()), strict=False):
            numbers[field] = decimal(text)

    take("profiled_v0", "_weights", "non_torch_gib", "activation_gib")
    take("profiled", "_total", "activation_gib")
    take("free_total", "free_gib", "total_gib")
    take("requested", "gpu_memory_utilization", "requested_gib")
    take("actual", "_weights", "activation_gib", "non_torch_gib", "cuda_graph_gib")
    take("consumed", "consumed_gib", "activation_gib", "cuda_graph_gib")
    take("graph", "cuda_graph_gib")
    take("graph_estimate", "cuda_graph_estimate_gib")
    for name, field in (("utilization", "gpu_memory_utilization"), ("initial_free", "free_gib")):
        if name in texts:
            numbers.setdefault(field, decimal(texts[name]))
    asked = (options or {}).get("gpu_memory_utilization")
    if isinstance(asked, (int, float)) and 0 < asked <= 1:
        numbers.setdefault("gpu_memory_utilization", float(asked))
    asked_bytes = (options or {}).get("kv_cache_memory_bytes")
    if "kv_bytes" in texts:
        asked_bytes = integer(texts["kv_bytes"])
    return MemoryReading(
        weights_gib=startup.rank_values("weights"),
        available_gib=startup.rank_values("available"),
        kv_cache_bytes=asked_bytes if isinstance(asked_bytes, int) and asked_bytes > 0 else None,
        reduced_kv_cache_gib=decimal(texts["reduced"]) if "reduced" in texts else None,
        **{field: value for field, value in numbers.items() if not field.startswith("_")},
    )


def _refusal(startup: Startup) -> Refusal | None:
    texts = startup.texts
    if not any(name in texts for name in ("refused_length", "refused_available")):
        return None
    return Refusal(
        max_model_len=_first_int((texts["refused_length"],)) if "refused_length" in texts else None,
        needed_gib=_first_float(startup.last["needed"][1:]) if "needed" in startup.last else None,
        available_gib=_first_float((texts["refused_available"],)) if "refused_available" in texts else None,
        estimated_max_model_len=_first_int((texts["estimated_length"],)) if "estimated_length" in texts else None,
    )


def _failure(startup: Startup) -> str | None:
    """Why the start-up ended, in kvplan's words; None when the log does not say that it failed."""
    if _refusal(startup):
        return "one request of max_model_len does not fit into the KV memory"
    later = bool(startup.tokens) and "failed" not in startup.texts  # a server that had started may run out of memory
    found = (
        why for name, why in _FAILURES.items() if name in startup.texts and not (later and name == "out_of_memory")
    )
    return next(found, None)


_FAILURES = {
    "no_memory": "no memory is left for the KV cache",
    "too_little_free": "less memory is free on the GPU than --gpu-memory-utilization asks for",
    "out_of_memory": "the GPU ran out of memory",
    "failed": "the engine failed to start",
}


def _notes(startup: Startup, startups: int) -> list[str]:
    notes = []
    if startups > 1:
        notes.append(f"The log holds {startups} start-ups; the one that came furthest, the last of equals, is read.")
    values = {value for _, value in startup.rank_values("available")}
    if len(values) > 1:
        notes.append(
            f"The ranks report {len(values)} different amounts of KV memory, {min(values)} to {max(values)} GiB; "
            "the smallest is read."
        )
    if len(startup.tokens) > 1:
        notes.append(f"{len(startup.tokens)} engines report tokens; engine {startup.engine()} is read.")
    elif len(set(startup.tokens.get(startup.engine(), ()))) > 1:
        notes.append("The ranks report different numbers of tokens; the smallest is read.")
    if startup.texts.get("generation") == "V0":
        notes.append("This is vLLM's V0 engine, whose KV cache kvplan does not plan.")
    return notes
