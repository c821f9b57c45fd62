"""The engine's start-up from the workers' specs to a bound cache, run by vLLM's own `EngineCore`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from . import describe, groupings
from .worker import Stage

_STOPS = (ValueError, AssertionError, RuntimeError, TypeError, LookupError, ArithmeticError, StopIteration)
"""What the engine dies of while it plans and binds the cache, in clear words or not."""


class _Executor:
    """What `EngineCore` asks its workers while it sets up the cache."""

    def __init__(self, stages: Sequence[Stage], memory: Sequence[int], record: dict[str, Any]) -> None:
        self.stages = stages
        self.memory = memory
        self.record = record
        self.layout = ""

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        return [dict(stage.specs) for stage in self.stages]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        return [stage.layouts for stage in self.stages]

    def set_kv_cache_layout(self, layout: str, interleave: int) -> None:
        self.layout = layout

    def determine_available_memory(self) -> list[int]:
        return list(self.memory)

    def initialize_from_config(self, caches: Sequence[Any]) -> None:
        self.record["num_blocks"] = caches[0].num_blocks
        try:
            sizes = [stage.bind(cache, self.layout) for stage, cache in zip(self.stages, caches, strict=True)]
        except _STOPS as error:
            self.record["binding"] = describe.failure(error, "bind")
            return
        self.record["kernel_block_sizes"] = sizes[0] if len(sizes) == 1 else sizes

    def compile_or_warm_up_model(self) -> None:
        pass


@contextlib.contextmanager
def _watching(record: dict[str, Any], made: list[Any], layout: str | None) -> Iterator[None]:
    """Take down what the engine decides on its way, so that it is known where the engine then stops."""
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.engine import core

    resolve, group, configure = (
        core.resolve_kv_cache_layout,
        core.get_global_kv_cache_groups,
        core.get_kv_cache_configs,
    )

    def watched_resolve(engine: Any, *args: Any) -> Any:
        if layout is not None:
            engine.cache_config.kv_cache_layout = layout
        found = resolve(engine, *args)
        record["layout"] = found.name
        return found

    def watched_group(engine: Any, specs: Any) -> Any:
        found = group(engine, specs)
        made.extend(found)
        record["groups"] = []
        if found:
            record["bytes_per_block"] = planning._pool_bytes_per_block(engine, found)
        return found

    def watched_configure(engine: Any, specs: Any, memory: Any, found: Any) -> Any:
        caches = configure(engine, specs, memory, found)
        if len(caches) > 1:
            per_stage = [planning._pool_bytes_per_block(engine, cache.kv_cache_groups) for cache in caches]
            record["bytes_per_block_per_stage"] = per_stage
        return caches

    core.resolve_kv_cache_layout = watched_resolve
    core.get_global_kv_cache_groups = watched_group
    core.get_kv_cache_configs = watched_configure
    try:
        yield
    finally:
        core.resolve_kv_cache_layout = resolve
        core.get_global_kv_cache_groups = group
        core.get_kv_cache_configs = configure


def start(
    config: Any,
    stages: Sequence[Stage],
    memory: Sequence[int],
    grouping: str,
    layout: str | None,
    minimum: int,
) -> dict[str, Any]:
    """What the engine plans: layout, groups, bytes per block, blocks, tokens, kernel blocks; or where it stops.

    ``layout`` None: the one that the engine resolves. ``config`` is changed as a start changes it (a fitted length).
    """
    from vllm.config import set_current_vllm_config
    from vllm.v1.engine.core import EngineCore

    record: dict[str, Any] = {}
    made: list[Any] = []
    engine = SimpleNamespace(model_executor=_Executor(stages, memory, record), collective_rpc=lambda *args, **kw: None)
    try:
        with (
            set_current_vllm_config(config),
            groupings.use(grouping, config, minimum),
            _watching(record, made, layout),
        ):
            scheduled = EngineCore._initialize_kv_caches(engine, config)
    except _STOPS as error:
        record["error"] = describe.failure(error, _step(record))
        return record
    finally:
        record["groups"] = _rows(made, config)
        record["max_model_len"] = config.model_config.max_model_len
    if scheduled.kv_cache_groups:
        record["blocks_per_request"] = sum(
            -(-group.kv_cache_spec.max_memory_usage_bytes(config) // group.kv_cache_spec.page_size_bytes)
            for group in scheduled.kv_cache_groups
        )
        record["kv_cache_size_tokens"] = config.cache_config.kv_cache_size_tokens
        record["max_concurrency"] = config.cache_config.kv_cache_max_concurrency
    return record


def _rows(groups: Sequence[Any], config: Any) -> list[dict[str, Any]]:
    """The groups; none where their specs have no worst case, on which the engine has then stopped."""
    try:
        return [describe.group_row(group, config) for group in groups]
    except (AssertionError, ZeroDivisionError):
        return []


def _step(record: dict[str, Any]) -> str:
    """The step of the start-up that stopped, from what was taken down before."""
    if "layout" not in record:
        return "layout"
    if "groups" not in record:
        return "groups"
    return "scheduler" if "num_blocks" in record else "capacity"
