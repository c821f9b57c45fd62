"""Collect the facts of one start-up, and tell where in a log the next one begins.

A log can hold several: a container that restarts, a script that builds two engines, two services of a compose file.
Within one start-up there are several ranks (each reports its weights and memory) and with data parallelism several
engines (each reports its tokens). Everything kept here is bounded, whatever the log holds.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeVar

from kvplan.logs.facts import Fact, decimal, integer
from kvplan.logs.lines import Record
from kvplan.logs.process import engine_index, rank_order
from kvplan.logs.values import Value

T = TypeVar("T")
_MAX_RANKS = 4096
_MAX_PADDING = 256

# How far a start-up has come: facts that a fresh one begins with end it.
_NONE, _VERSION, _ARGUMENTS, _ENGINE, _SIZED = range(5)
_SIZING = ("available", "reserved", "tokens", "refused_length", "no_memory")


class Report(NamedTuple):
    """Tokens and concurrency that one engine printed; up to 0.11.0 once for each rank."""

    tokens: int
    concurrency: float | None


class Startup:
    """The facts of one start-up, growing while its lines are read."""

    def __init__(self) -> None:
        self.stage = _NONE
        self.texts: dict[str, str] = {}  # the first of each sentence that is said once
        self.last: dict[str, tuple[str, ...]] = {}  # the last of each sentence that may be corrected later
        self.every: dict[str, list[str]] = {}  # the first two of each sentence that target and drafter both print
        self.ranks: dict[str, dict[str, float]] = {"weights": {}, "available": {}}
        self.engines: set[int] = set()
        self.tokens: dict[int, list[int]] = {}
        self.concurrency: dict[int, list[float]] = {}
        self.blocks: dict[int, int] = {}
        self.counted_engines = 1
        self.padding: dict[tuple[int, float], None] = {}
        self.model_runner: str | None = None

    def begins_anew(self, fact: Fact, record: Record) -> bool:
        """Whether the fact belongs to the next start-up rather than to this one."""
        if fact.name == "version":
            repeated = self.texts.get("version") == fact.values[0]
            return self.stage >= _ENGINE or (self.stage == _ARGUMENTS and not repeated)
        if fact.name == "arguments":
            repeated = self.texts.get("arguments") == fact.values[0]
            return self.stage >= _ENGINE or (self.stage == _ARGUMENTS and not repeated)
        if fact.name == "engine":
            return self.stage >= _ENGINE and engine_index(record.process) in self.engines
        return False

    def add(self, fact: Fact, record: Record) -> None:
        """Take one fact in."""
        name, values = fact
        take = getattr(self, f"_take_{name}", None)
        if take is not None:
            take(values, record)
        elif name in ("max_model_len", "architecture"):
            seen = self.every.setdefault(name, [])
            if len(seen) < 2 and values[0] not in seen:
                seen.append(values[0])
        elif name in _CORRECTED:
            self.last[name] = values
        else:
            self.texts.setdefault(name, values[0] if values else name)
        if name in _SIZING:
            self.stage = _SIZED

    def rank_values(self, name: str) -> tuple[tuple[str, float], ...]:
        """(rank, GiB) pairs of the engine that is read: lowest rank first, else in the log's order."""
        chosen = self.engine()
        found = [(rank, value) for rank, value in self.ranks[name].items() if engine_index(rank) == chosen]
        return tuple(sorted(found or self.ranks[name].items(), key=lambda pair: rank_order(pair[0])))

    def engine(self) -> int:
        """The engine that is read: the first that reported tokens, else the first of all."""
        return min(self.tokens, default=min(self.engines, default=0))

    def report(self) -> Report | None:
        """The tokens and concurrency of that engine; the smallest, since the rank with the fewest blocks decides."""
        tokens = self.tokens.get(self.engine())
        concurrency = self.concurrency.get(self.engine())
        return Report(min(tokens), min(concurrency) if concurrency else None) if tokens else None

    def num_blocks(self) -> int | None:
        """Blocks, where a log has them: the engine's own message, or a real --num-gpu-blocks-override."""
        if self.blocks:
            return self.blocks.get(self.engine(), next(iter(self.blocks.values())))
        profiled, override = (integer(text) for text in self.last.get("override", ("0", "0")))
        # While CUDA graphs are profiled (0.18.0 to 0.19.1) vLLM overrides zero blocks by a handful: not the pool.
        asked = self.texts.get("arguments")
        return override if profiled > 0 and (asked is None or "num_gpu_blocks_override" in asked) else None

    def messages(self) -> tuple[dict[str, Value], dict[str, Value]]:
        """Options that single messages tell: weaker and stronger than the arguments."""
        weak: dict[str, Value] = {}
        strong: dict[str, Value] = {}
        if kv_cache_dtype := self.texts.get("kv_cache_dtype"):
            weak["kv_cache_dtype"] = kv_cache_dtype
        if batched := self.texts.get("batched_tokens"):
            strong["max_num_batched_tokens"] = integer(batched)
        if scheduling := self.texts.get("async_scheduling"):
            strong["async_scheduling"] = scheduling == "enabled"
        if "no_async_scheduling" in self.texts:
            strong["async_scheduling"] = False
        if "no_prefix_caching" in self.texts:
            strong["enable_prefix_caching"] = False
        if "no_hybrid_manager" in self.texts:
            strong["disable_hybrid_kv_cache_manager"] = True
        for name in ("mamba_cache_mode", "mamba_ssm_cache_dtype"):
            if name in self.last:
                strong[name] = self.last[name][0]
        return weak, strong

    def worth(self) -> tuple[bool, bool, int]:
        """How much of a start-up this is: reported tokens, came to the sizing, how far otherwise."""
        return bool(self.tokens), self.stage >= _SIZED, self.stage

    def _take_version(self, values: tuple[str, ...], record: Record) -> None:
        self.stage = max(self.stage, _VERSION)
        self.texts.setdefault("version", values[0])

    def _take_arguments(self, values: tuple[str, ...], record: Record) -> None:
        self.stage = max(self.stage, _ARGUMENTS)
        self.texts.setdefault("arguments", values[0])

    def _take_engine(self, values: tuple[str, ...], record: Record) -> None:
        self.stage = max(self.stage, _ENGINE)
        self.engines.add(engine_index(record.process))
        for name, value in zip(("generation", "engine_version", "config"), values, strict=True):
            self.texts.setdefault(name, value)

    def _take_weights(self, values: tuple[str, ...], record: Record) -> None:
        self._take_rank("weights", values, record)
        if "model_runner.py" in record.text:
            self.model_runner = "V1" if "gpu_model_runner.py" in record.text else "V2"

    def _take_available(self, values: tuple[str, ...], record: Record) -> None:
        self._take_rank("available", values, record)

    def _take_reserved(self, values: tuple[str, ...], record: Record) -> None:
        self._take_rank("available", values, record)
        self.texts["reserved"] = values[0]

    def _take_rank(self, name: str, values: tuple[str, ...], record: Record) -> None:
        ranks, value = self.ranks[name], decimal(values[0])
        if len(ranks) < _MAX_RANKS or record.process in ranks:
            before = ranks.setdefault(record.process, value)
            if name == "available":  # ranks without a tag share an entry: the smallest decides
                ranks[record.process] = min(before, value)

    def _take_tokens(self, values: tuple[str, ...], record: Record) -> None:
        _append(self.tokens, record, integer(values[0]))

    def _take_concurrency(self, values: tuple[str, ...], record: Record) -> None:
        _append(self.concurrency, record, decimal(values[1]))

    def _take_blocks(self, values: tuple[str, ...], record: Record) -> None:
        named = re.search(r"Engine ([0-9]{1,6}):", record.text)
        counted = re.search(r"([0-9]{1,6}) Engines:", record.text)
        if counted:
            self.counted_engines = int(counted.group(1))
        if len(self.blocks) < _MAX_RANKS:
            self.blocks.setdefault(int(named.group(1)) if named else 0, integer(values[0]))

    def _take_padding(self, values: tuple[str, ...], record: Record) -> None:
        if len(self.padding) < _MAX_PADDING:
            self.padding[integer(values[0]), decimal(values[1])] = None


def _append(found: dict[int, list[T]], record: Record, value: T) -> None:
    engine = engine_index(record.process)
    if len(found) < _MAX_RANKS or engine in found:
        of_engine = found.setdefault(engine, [])
        if len(of_engine) < _MAX_RANKS:
            of_engine.append(value)


# Sentences of which the last is right: a later step or another process corrects the earlier one.
_CORRECTED = (
    "attention_block_size",
    "mamba_padding",
    "kv_cache_block_size",
    "layout",
    "override",
    "mamba_cache_mode",
    "mamba_ssm_cache_dtype",
    "fitted",
    "platform",
    "needed",
    "free_total",
    "requested",
    "actual",
    "consumed",
    "profiled",
    "profiled_v0",
    "graph",
    "graph_estimate",
)
