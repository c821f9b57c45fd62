"""One plan from layers: groups, what a request costs, what the budget holds.

The order of steps is that of `get_global_kv_cache_groups` and `get_kv_cache_configs`
(vllm/v1/core/kv_cache_planning.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.layout import is_block_outermost
from kvplan.planning.capacity import (
    Need,
    blocks_per_request,
    bytes_per_block,
    check_layout,
    concurrency,
    fit,
    need_of,
    stride_bytes,
    used_bytes,
)
from kvplan.planning.groups import Grouping, group_layers, on_stages, retain
from kvplan.planning.layer_set import CannotPlan, Grouped, intern
from kvplan.planning.padding import cost_of, holdings_of
from kvplan.planning.uniform_page import Bucket, GroupSize, least_padding_group_size, main_group_size
from kvplan.result import Group, Plan
from kvplan.spec import CacheLayer, Limits

MAIN = "main"
UNIFORM = "uniform"
PACKED = "packed"
GROUPINGS = (MAIN, UNIFORM, PACKED)
DEFAULT_MIN_GROUP_LAYERS = 3
"""--min-kv-cache-group-layers of vLLM pull request 58207."""
DRAFTER = "drafter"

BLOCK_OUTERMOST_TWINS = {"LBHNC": "BLHNC", "LBNHC": "BLNHC", "LHBNC": "BLHNC"}
LAYER_OUTERMOST_TWINS = {"BLHNC": "LBHNC", "BLNHC": "LBNHC", "BHLNC": "LBHNC"}


def plan_layout(grouping: str, layout: str) -> str:
    """The layout that ``grouping`` is planned under where the deployment's layout is ``layout``."""
    twins = BLOCK_OUTERMOST_TWINS if grouping == PACKED else LAYER_OUTERMOST_TWINS
    return twins.get(layout, layout)


class _Pool(NamedTuple):
    """What bounds the pool: see `plan_layers`."""

    available_memory: int | Sequence[int] | None
    num_stages: int
    num_gpu_blocks_override: int | None
    auto_fit: bool

    def per_stage(self) -> Sequence[int] | None:
        """Bytes on each pipeline stage; None without a budget."""
        memory = self.available_memory
        if memory is None and self.num_gpu_blocks_override is not None:
            memory = 0  # the override decides, whatever the memory
        if memory is None or not isinstance(memory, int):
            return memory
        return [memory] * self.num_stages


def plan_layers(
    layers: Sequence[CacheLayer],
    limits: Limits,
    *,
    grouping: str,
    layout: str,
    available_memory: int | Sequence[int] | None = None,
    pipeline_parallel_size: int = 1,
    disable_hybrid_kv_cache_manager: bool = False,
    num_gpu_blocks_override: int | None = None,
    min_kv_cache_group_layers: int = DEFAULT_MIN_GROUP_LAYERS,
    use_eagle_block_drop: bool = False,
    num_prefill_lookahead_tokens: int = 0,
    auto_fit_max_model_len: bool = False,
) -> Plan:
    """One grouping of ``layers``: its groups, what a request costs, and what the budget holds.

    ``grouping`` is one of GROUPINGS. ``layout`` is the deployment's; the plan's own is `plan_layout` of both.
    ``available_memory`` is bytes per rank, one number or one per pipeline stage; without it (and without
    ``num_gpu_blocks_override``) blocks and tokens stay None. ``auto_fit_max_model_len``: limits.max_model_len is the
    model's own and shrinks to what fits (--max-model-len auto).

    A plan that vLLM would not serve carries one sentence in ``error``: with its groups where only the budget is too
    small, without any where vLLM's planning itself stops. ValueError for a grouping that does not exist.
    """
    if grouping not in GROUPINGS:
        raise ValueError(f"no grouping {grouping!r}")
    layers = _in_stage_order(layers)
    num_stages = max(pipeline_parallel_size, layers[-1].stage + 1 if layers else 1)
    pool = _Pool(available_memory, num_stages, num_gpu_blocks_override, auto_fit_max_model_len)
    own_layout = plan_layout(grouping, layout)
    try:
        interned = intern([layer.spec for layer in layers])
        grouped = group_layers(
            retain(interned, max(0, num_prefill_lookahead_tokens - 1)),
            block_outermost=is_block_outermost(own_layout),
            group_size=_group_size(grouping, limits, min_kv_cache_group_layers),
            disable_hybrid_kv_cache_manager=disable_hybrid_kv_cache_manager,
        )
        return _plan(layers, grouped, own_layout, limits, pool, use_eagle_block_drop)
    except CannotPlan as stop:
        return _empty(own_layout, limits)._replace(error=str(stop))


def _in_stage_order(layers: Sequence[CacheLayer]) -> Sequence[CacheLayer]:
    """vLLM merges the stages' layers stage by stage."""
    stages = [layer.stage for layer in layers]
    return layers if stages == sorted(stages) else sorted(layers, key=lambda layer: layer.stage)


def _group_size(grouping: str, limits: Limits, minimum: int) -> GroupSize:
    def size(buckets: Sequence[Bucket]) -> int:
        counts = [len(bucket.layers) for bucket in buckets]
        if grouping != UNIFORM:
            return main_group_size(counts)
        return least_padding_group_size(counts, [_worst_case_bytes(b, limits) for b in buckets], minimum)

    return size


def _worst_case_bytes(bucket: Bucket, limits: Limits) -> int:
    """Bytes that one layer of the bucket holds for a request of max_model_len; of its specs, the largest."""
    return max([blocks_per_request(Grouped((), spec), limits) * spec.page_size_bytes for spec in bucket.specs])


def _empty(layout: str, limits: Limits) -> Plan:
    return Plan(
        layout=layout,
        error=None,
        group_size=None,
        groups=(),
        bytes_per_block=None,
        num_blocks=None,
        blocks_per_request=None,
        kv_cache_size_tokens=None,
        max_concurrency=None,
        max_model_len=limits.max_model_len,
        longest_model_len=None,
        padding=None,
        request_cost=None,
    )


def _plan(
    layers: Sequence[CacheLayer], grouped: Grouping, layout: str, limits: Limits, pool: _Pool, eagle: bool
) -> Plan:
    groups = grouped.groups
    plan = _empty(layout, limits)
    if not groups:
        return plan._replace(num_blocks=1)  # attention-free: the null block alone
    stage_bytes = _bytes_per_stage(groups, layers, layout, pool.num_stages)
    block_bytes = stage_bytes[0] if pool.num_stages == 1 else bytes_per_block(groups, layout)
    need = need_of(groups)
    plan = _with_capacity(plan, need, stage_bytes, pool, limits)
    own_limits, limits = limits, limits._replace(max_model_len=plan.max_model_len or limits.max_model_len)
    blocks = [blocks_per_request(group, limits) for group in groups]
    outermost = is_block_outermost(layout)
    owners = [layer.owner for layer in layers]
    holdings = holdings_of(groups, blocks, owners, block_bytes, block_outermost=outermost)
    padding, cost = cost_of(holdings, block_bytes, limits)
    shown = _groups(groups, blocks, layers, block_bytes, eagle, outermost)
    if limits != own_limits:
        shown = [
            group._replace(blocks_before_auto_fit=blocks_per_request(made, own_limits))
            for group, made in zip(shown, groups, strict=True)
        ]
    return plan._replace(
        group_size=grouped.group_size,
        groups=tuple(shown),
        bytes_per_block=block_bytes,
        blocks_per_request=sum(blocks),
        padding=padding,
        request_cost=cost,
        bytes_per_block_per_stage=stage_bytes if pool.num_stages > 1 else (),
        notes=grouped.notes + _uneven_stages(block_bytes, stage_bytes),
    )


def _uneven_stages(block_bytes: int, stage_bytes: Sequence[int]) -> tuple[str, ...]:
    """A note where the stages' blocks together are larger than the block that padding and costs are counted by."""
    more = sum(stage_bytes) - block_bytes
    if more <= 0:
        return ()
    return (f"groups are dealt unevenly to the pipeline stages: their blocks take {more:,} bytes more than one pool's",)


def _bytes_per_stage(
    groups: Sequence[Grouped], layers: Sequence[CacheLayer], layout: str, num_stages: int
) -> tuple[int, ...]:
    """Bytes per block on each pipeline stage. CannotPlan where a stage cannot lay its pages out."""
    per_stage = [groups]
    if num_stages > 1:
        per_stage = [*on_stages(groups, [layer.stage for layer in layers], num_stages)]
    for own in per_stage:
        check_layout(own, layout)
    return tuple([bytes_per_block(own, layout) for own in per_stage])


def _with_capacity(plan: Plan, need: Need, stage_bytes: Sequence[int], pool: _Pool, limits: Limits) -> Plan:
    """``plan`` with blocks and tokens, or with the error of a budget that is too small."""
    available = pool.per_stage()
    if available is None:
        return plan
    capacity = fit(
        need,
        stage_bytes,
        available,
        limits,
        num_gpu_blocks_override=pool.num_gpu_blocks_override,
        auto_fit=pool.auto_fit,
    )
    plan = plan._replace(
        error=capacity.error,
        num_blocks=capacity.num_blocks,
        max_model_len=capacity.max_model_len,
        longest_model_len=capacity.longest_model_len,
    )
    if capacity.num_blocks is None:
        return plan
    length = capacity.max_model_len
    blocks = need.blocks(limits._replace(max_model_len=length))
    tokens, ratio = concurrency(capacity.num_blocks, blocks, length)
    return plan._replace(kv_cache_size_tokens=tokens, max_concurrency=ratio)


def _groups(
    groups: Sequence[Grouped],
    blocks: Sequence[int],
    layers: Sequence[CacheLayer],
    block_bytes: int,
    eagle: bool,
    block_outermost: bool,
) -> list[Group]:
    """The groups as the result shows them, with the layers' names."""
    names = [layer.name for layer in layers]
    owners = [layer.owner for layer in layers]
    out = []
    for group, held in zip(groups, blocks, strict=True):
        members, spec = group.layers, group.spec
        counted = group.counted_specs()
        uniform_type = group.layer_specs is not None
        page = sum([s.page_size_bytes * n for s, n in counted]) if uniform_type else spec.page_size_bytes
        unused = block_bytes - used_bytes(group, block_outermost=block_outermost)
        slot = min([s.page_size_bytes if block_outermost else stride_bytes(s) for s, _ in counted])
        own = {owners[layer] for layer in members}
        out.append(
            Group(
                layers=tuple([names[layer] for layer in members]),
                spec=spec,
                layer_specs=group.layer_specs or (spec,) * len(members),
                kind=spec.kind,
                owner=min(own) if len(own) == 1 else "both",
                block_size=spec.block_size,
                page_size_bytes=page,
                blocks_per_request=held,
                is_eagle_group=eagle and DRAFTER in own,
                padding_pages=unused // slot,
                padding_bytes=unused,
                uniform_type=uniform_type,
            )
        )
    return out
