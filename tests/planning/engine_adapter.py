"""The installed vLLM's own planning functions, called with kvplan's specs."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from random_cases import Case

from kvplan.planning import UNIFORM, plan_layout
from kvplan.spec import CacheLayer, Limits, MultipleOf, Spec, StateSpec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from vllm.v1.attention import backend
    from vllm.v1.core import kv_cache_config_builder, kv_cache_planning, kv_cache_utils
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
    from vllm.v1.kv_cache_interface import (
        ChunkedLocalAttentionSpec,
        CircularBufferSpec,
        CrossAttentionSpec,
        FullAttentionSpec,
        HiddenStateCacheSpec,
        KVCacheLayout,
        KVQuantMode,
        MambaAttentionBackendEnum,
        MambaSpec,
        MLAAttentionSpec,
        RSWASpec,
        SinkFullAttentionSpec,
        SlidingWindowMLASpec,
        SlidingWindowSpec,
        SparseCacheRole,
        UniformTypeKVCacheSpecs,
        iter_layer_specs,
    )

logging.getLogger("vllm").setLevel(logging.CRITICAL)
register_all_kvcache_specs(SimpleNamespace())

CLASSES = {
    "full_attention": FullAttentionSpec,
    "sliding_window": SlidingWindowSpec,
    "chunked_local": ChunkedLocalAttentionSpec,
    "mla": MLAAttentionSpec,
    "sliding_window_mla": SlidingWindowMLASpec,
    "mamba": MambaSpec,
    "circular_buffer": CircularBufferSpec,
    "cross_attention": CrossAttentionSpec,
    "sink_full_attention": SinkFullAttentionSpec,
    "rswa": RSWASpec,
    "hidden_state": HiddenStateCacheSpec,
}
KINDS = {cls: kind for kind, cls in CLASSES.items()}
TO_ENGINE = {
    "dtype": lambda name: getattr(torch, name),
    "dtypes": lambda names: tuple(getattr(torch, name) for name in names),
    "kv_quant_mode": lambda name: KVQuantMode[name.upper()],
    "cache_role": SparseCacheRole,
    "mamba_type": lambda name: MambaAttentionBackendEnum[name.upper()],
    "block_stride_alignment": lambda a: backend.MultipleOf(a.base) if isinstance(a, MultipleOf) else a,
}


class Outcome(NamedTuple):
    """What the engine planned, as far as it got."""

    error: str | None
    groups: list[tuple[Any, ...]] | None = None
    bytes_per_block: int | None = None
    stage_bytes: list[int] | None = None
    num_blocks: int | None = None
    blocks_per_request: int | None = None
    tokens: int | None = None
    concurrency: float | None = None
    max_model_len: int | None = None


def engine_spec(spec: Spec, owner: str) -> Any:
    """kvplan's spec as an object of vLLM's class."""
    cls = CLASSES[spec.kind]
    values = spec._asdict()
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name in values]
    if isinstance(spec, StateSpec):
        names.remove("num_heads")
    fields = {name: TO_ENGINE.get(name, lambda value: value)(values[name]) for name in names}
    return cls(**fields, is_draft=owner == "drafter")


def described(spec: Any) -> tuple[Any, ...]:
    """Every field of a spec of either side in one form, so that the two can be compared."""
    kind = KINDS.get(type(spec)) or spec.kind
    cls = CLASSES[kind]
    skipped = {"is_draft", "num_heads"} | ({"tokens_per_state", "block_stride_alignment"} if kind == "mamba" else set())
    out: list[Any] = [kind, spec.page_size_bytes]
    for field in dataclasses.fields(cls):
        if field.name in skipped:
            continue
        value = getattr(spec, field.name)
        if type(spec) not in KINDS:
            value = TO_ENGINE.get(field.name, lambda v: v)(value)
        out.append((field.name, value))
    return tuple(out)


def engine_config(case: Case, layout: str) -> SimpleNamespace:
    """The fields of vLLM's config that its planning reads."""
    limits: Limits = case.limits
    options = case.options
    resolved = KVCacheLayout[layout]
    length = limits.max_model_len
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=length,
            original_max_model_len=-1 if options["auto_fit_max_model_len"] else length,
            supports_kv_cache_grouping=False,
        ),
        cache_config=SimpleNamespace(
            get_resolved_kv_cache_layout=lambda: resolved,
            mamba_cache_mode=limits.mamba_cache_mode,
            num_gpu_blocks_override=options["num_gpu_blocks_override"],
            prefix_cache_retention_interval=None,
        ),
        scheduler_config=SimpleNamespace(
            disable_hybrid_kv_cache_manager=options["disable_hybrid_kv_cache_manager"],
            max_num_encoder_input_tokens=limits.max_num_encoder_input_tokens,
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=1, decode_context_parallel_size=limits.decode_context_parallel_size
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        device_config=SimpleNamespace(device_type="cuda"),
        speculative_config=SimpleNamespace(
            use_eagle_block_drop=lambda: options["use_eagle_block_drop"], method="eagle3"
        ),
        max_in_flight_tokens=limits.max_in_flight_tokens,
        num_prefill_lookahead_tokens=options["num_prefill_lookahead_tokens"],
    )


@contextlib.contextmanager
def patched(config: SimpleNamespace, grouping: str, minimum: int) -> Iterator[None]:
    """The default placement, and for `uniform` pull request 58207's group size in the place of the released one.

    The released function takes its size from `min` and `max` of the buckets' lengths; answering both with one size
    makes it cut to that size, on its own buckets.
    """

    def size_or(builtin: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if frame.f_code.co_name == "_get_kv_cache_groups_uniform_page_size":
                return pull_request_size(frame.f_locals, config, minimum)
            return builtin(*args, **kwargs)

        return call

    saved = kv_cache_config_builder.get_kv_cache_config_builder
    kv_cache_config_builder.get_kv_cache_config_builder = lambda _: kv_cache_planning.DefaultKVCacheConfigBuilder()
    if grouping == UNIFORM:
        vars(kv_cache_planning).update(min=size_or(builtins.min), max=size_or(builtins.max))
    try:
        yield
    finally:
        kv_cache_config_builder.get_kv_cache_config_builder = saved
        for name in ("min", "max"):
            vars(kv_cache_planning).pop(name, None)


def pull_request_size(found: dict[str, Any], config: SimpleNamespace, minimum: int) -> int:
    """The group size of pull request 58207 for the buckets that the engine made."""
    specs, buckets = found["kv_cache_spec"], found["layer_buckets"]
    counts = [len(bucket) for bucket in buckets]
    worst = [max(specs[name].max_memory_usage_bytes(config) for name in bucket) for bucket in buckets]
    low = min(max(min(counts), minimum), max(counts))

    def cost(size: int) -> tuple[int, int, int]:
        groups = [-(-count // size) for count in counts]
        waste = sum(w * (g * size - n) for w, g, n in zip(worst, groups, counts, strict=True))
        return waste, sum(groups), size

    return min(range(low, max(counts) + 1), key=cost)


def stages_of(layers: list[CacheLayer], num_stages: int) -> list[dict[str, Any]]:
    """Each stage's specs by layer name."""
    objects: dict[tuple[int, str], Any] = {}
    stages: list[dict[str, Any]] = [{} for _ in range(num_stages)]
    for layer in layers:
        key = (id(layer.spec), layer.owner)
        if key not in objects:
            objects[key] = engine_spec(layer.spec, layer.owner)
        stages[layer.stage][layer.name] = objects[key]
    return stages


def engine_plan(case: Case, grouping: str) -> Outcome:
    """What the installed vLLM plans for the case."""
    layout = plan_layout(grouping, case.options["layout"])
    config = engine_config(case, layout)
    stages = stages_of(case.layers, case.options["pipeline_parallel_size"])
    with patched(config, grouping, case.options["min_kv_cache_group_layers"]):
        try:
            groups = kv_cache_planning.get_global_kv_cache_groups(config, stages)
        except Exception as error:
            return Outcome(f"grouping: {type(error).__name__}: {error}")
        shown = [shown_group(group) for group in groups]
        try:
            block = kv_cache_planning._pool_bytes_per_block(config, groups) if groups else None
        except Exception as error:
            return Outcome(f"bytes: {type(error).__name__}: {error}", shown)
        try:
            configs = kv_cache_planning.get_kv_cache_configs(config, stages, case.options["available_memory"], groups)
            scheduler = kv_cache_utils.generate_scheduler_kv_cache_config(configs)
            length = config.model_config.max_model_len
            if not groups:
                return Outcome(None, shown, block, None, scheduler.num_blocks, max_model_len=length)
            tokens, ratio = kv_cache_utils.get_kv_cache_capacity(config, scheduler)
            return Outcome(
                None,
                shown,
                block,
                [kv_cache_planning._pool_bytes_per_block(config, c.kv_cache_groups) for c in configs],
                scheduler.num_blocks,
                sum(spec_blocks(group.kv_cache_spec, config) for group in scheduler.kv_cache_groups),
                tokens,
                ratio,
                length,
            )
        except Exception as error:
            return Outcome(f"capacity: {type(error).__name__}: {error}", shown, block)


def spec_blocks(spec: Any, config: SimpleNamespace) -> int:
    return -(-spec.max_memory_usage_bytes(config) // spec.page_size_bytes)


def shown_group(group: Any) -> tuple[Any, ...]:
    """A group with every field of its specs."""
    spec = group.kv_cache_spec
    own = isinstance(spec, UniformTypeKVCacheSpecs)
    try:
        page = spec.page_size_bytes
        specs = [described(s) for s in iter_layer_specs(spec)]
    except AssertionError:
        page, specs = None, []
    return (tuple(group.layer_names), own, spec.block_size, page, specs, group.is_eagle_group)


def shortage_numbers(sentence: str) -> tuple[list[str], int]:
    """The numbers in vLLM's sentence for a budget that is too small: [needed GiB, available GiB], longest length."""
    gib = re.findall(r"\(([\d.-]+) GiB", sentence)
    longest = re.search(r"estimated maximum model length is (\d+)", sentence)
    return gib, int(longest.group(1)) if longest else 0
