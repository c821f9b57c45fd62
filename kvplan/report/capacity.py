"""How many requests of a stated length fit at once: blocks by group, from the specs' own rule."""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.result import Plan
from kvplan.spec import CIRCULAR_BUFFER, AttentionSpec, Limits, Spec, StateSpec

_LENGTHS = tuple(4**n for n in range(5, 14))


class Load(NamedTuple):
    """Requests of one length."""

    length: int
    blocks: int
    """Blocks that one of them holds, over all groups."""
    bytes: int
    at_once: float | None
    """Such requests that the pool holds; None without a budget."""


def loads(plan: Plan, config: EngineConfig, most: int = 4) -> list[Load]:
    """Requests of max_model_len and of some shorter lengths, shortest first.

    Empty where the specs' rule does not give the plan's own blocks at max_model_len: then the plan knows more than
    the specs, and nothing is said about other lengths.
    """
    longest = plan.max_model_len or config.max_model_len
    block = plan.bytes_per_block
    if block is None or not plan.groups or blocks_of(plan, config, longest) != plan.blocks_per_request:
        return []
    lengths = [n for n in _LENGTHS if n * 2 <= longest][-(most - 1) :]
    out = []
    for length in [*lengths, longest]:
        blocks = blocks_of(plan, config, length)
        out.append(Load(length, blocks, blocks * block, None if plan.num_blocks is None else plan.num_blocks / blocks))
    return out


def longest_for(plan: Plan, config: EngineConfig, requests: int) -> int | None:
    """Tokens of the longest requests of which so many fit at once beside the null block, at most max_model_len.

    None without a budget, where not even one token each fits, or where the specs' rule is not the plan's (`loads`).
    """
    most = plan.max_model_len or config.max_model_len
    if plan.num_blocks is None or not plan.groups or blocks_of(plan, config, most) != plan.blocks_per_request:
        return None
    least, each = 0, (plan.num_blocks - 1) // requests
    while least < most:
        middle = (least + most + 1) // 2
        if blocks_of(plan, config, middle) <= each:
            least = middle
        else:
            most = middle - 1
    return least or None


def blocks_of(plan: Plan, config: EngineConfig, length: int) -> int:
    """Blocks that one request of ``length`` tokens holds at most."""
    limits = Limits(
        max_model_len=length,
        max_in_flight_tokens=config.max_in_flight_tokens,
        mamba_cache_mode=config.mamba_cache_mode,
        decode_context_parallel_size=config.decode_context_parallel_size,
        max_num_encoder_input_tokens=config.max_num_encoder_input_tokens,
    )
    return sum(max(spec.blocks_per_request(limits) for spec in set(group.layer_specs)) for group in plan.groups)


def prefix_unit(plan: Plan, config: EngineConfig) -> int | None:
    """Tokens below which no prompt can hit the prefix cache: only whole units of them are hashed.

    One group: its block. Several: the greatest common divisor of their blocks, their least common multiple where a
    state is not kept at block boundaries (vllm/v1/core/kv_cache_utils.py, resolve_kv_cache_block_sizes). None without
    prefix caching.
    """
    if not config.enable_prefix_caching or not plan.groups:
        return None
    specs = [group.spec for group in plan.groups]
    dcp = config.decode_context_parallel_size
    if len(specs) == 1:
        return specs[0].block_size * (dcp if specs[0].dcp_sharded else 1)
    every = [spec.block_size * (dcp if spec.dcp_sharded else 1) for spec in specs]
    if any(isinstance(spec, StateSpec) and spec.mamba_cache_mode != "align" for spec in specs):
        return lcm(*every)
    hashed = [n for n, spec in zip(every, specs, strict=True) if _is_prefix_cacheable(spec)]
    return gcd(*(hashed or every))


def _is_prefix_cacheable(spec: Spec) -> bool:
    return spec.kind != CIRCULAR_BUFFER and not (isinstance(spec, AttentionSpec) and spec.bounded_replay)
