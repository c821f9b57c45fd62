"""From groups to bytes per block, blocks and tokens: what a budget holds, and the longest request that fits.

From vllm/v1/core/kv_cache_planning.py (`_get_kv_cache_bytes_per_block`, `validate_kv_cache_layout`,
`get_kv_cache_configs`, `_estimate_max_model_len_from_groups`) and vllm/v1/core/kv_cache_utils.py
(`get_kv_cache_capacity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from kvplan.errors import Refused
from kvplan.layout import is_block_compact, is_block_outermost, validate
from kvplan.planning.layer_set import CannotPlan, Grouped
from kvplan.planning.unify import page_size
from kvplan.spec import WINDOW_KINDS, Limits, Spec, round_up

GIB = 2**30


def stride_alignment(spec: Spec) -> int:
    """Bytes that the stride between two blocks must be a multiple of. CannotPlan where a kernel block is empty."""
    alignment = spec.block_stride_alignment_bytes
    if alignment <= 0:
        raise CannotPlan(
            f"a kernel block of the {spec.kind} cache holds no state; "
            "choose a --block-size that its backend runs whole."
        )
    return alignment


def stride_bytes(spec: Spec) -> int:
    """Bytes from one block to the next of a layer in a layer-outermost layout."""
    return round_up(page_size(spec), stride_alignment(spec))


def used_bytes(group: Grouped, *, block_outermost: bool) -> int:
    """Bytes of a block that the group's layers occupy: their pages; layer-outermost, at their strides."""
    size = page_size if block_outermost else stride_bytes
    return sum([size(spec) * count for spec, count in group.counted_specs() if count])


def bytes_per_block(groups: Sequence[Grouped], layout: str) -> int:
    """Bytes of one block of the pool: those of the widest group. CannotPlan where no group has a layer."""
    outermost = is_block_outermost(layout)
    widest = max(used_bytes(group, block_outermost=outermost) for group in groups)
    if widest <= 0:
        raise CannotPlan("a pipeline stage has no layer with a KV cache; lower --pipeline-parallel-size.")
    if not outermost:
        return widest
    specs = {id(spec): spec for group in groups for spec, count in group.counted_specs() if count}
    return round_up(widest, lcm(*{stride_alignment(spec) for spec in specs.values()}))


def check_layout(groups: Sequence[Grouped], layout: str) -> None:
    """CannotPlan where pages of several sizes, or padded pages, cannot be laid out (`validate_kv_cache_layout`)."""
    specs = list({id(spec): spec for group in groups for spec, count in group.counted_specs() if count}.values())
    try:
        validate(layout, map(page_size, specs), len(groups))
    except Refused as refusal:
        raise CannotPlan(str(refusal)) from None
    if is_block_compact(layout):
        return
    for spec in specs:
        padded = spec.page_size_padded is not None and spec.num_heads != 1
        if padded or (not is_block_outermost(layout) and stride_bytes(spec) != page_size(spec)):
            raise CannotPlan(
                f"the layout {layout} cannot pad the pages of the {spec.kind} cache; "
                "set VLLM_KV_CACHE_LAYOUT to LBNHC or LBHNC."
            )


def blocks_per_request(group: Grouped, limits: Limits) -> int:
    """Blocks of the group that one request of max_model_len holds at most."""
    if group.layer_specs is None:
        return spec_blocks(group.spec, limits)
    return max([spec_blocks(spec, limits) for spec, _ in group.counted_specs()])


def spec_blocks(spec: Spec, limits: Limits) -> int:
    """Blocks that one request holds of a layer. CannotPlan for a window cache sharded by context parallelism."""
    if spec.kind in WINDOW_KINDS and spec.dcp_sharded and limits.decode_context_parallel_size > 1:
        raise CannotPlan(
            f"vLLM cannot shard {spec.kind} caches over --decode-context-parallel-size "
            f"{limits.decode_context_parallel_size}; set it to 1."
        )
    return spec.blocks_per_request(limits)


class Need(NamedTuple):
    """The blocks that a request holds as a function of its length, with equal groups counted once."""

    counted: tuple[tuple[Grouped, int], ...]

    def blocks(self, limits: Limits) -> int:
        """Blocks of all groups together."""
        return sum([blocks_per_request(group, limits) * count for group, count in self.counted])


def need_of(groups: Sequence[Grouped]) -> Need:
    """What requests need of ``groups``; groups of one merged spec object need the same."""
    counted: dict[int, tuple[Grouped, int]] = {}
    for i, group in enumerate(groups):
        key = id(group.spec) if group.layer_specs is None else -i - 1
        counted[key] = (group, counted.get(key, (group, 0))[1] + 1)
    return Need(tuple(counted.values()))


def longest_model_len(need: Need, block_bytes: int, budget: int, limits: Limits) -> int:
    """The longest model length, up to ``limits.max_model_len``, of which one request fits into ``budget`` bytes.

    0 where not even one token fits. ``budget``: without the null block.
    """

    def fits(length: int) -> bool:
        return block_bytes * need.blocks(limits._replace(max_model_len=length)) <= budget

    if fits(limits.max_model_len):
        return limits.max_model_len
    if not fits(1):
        return 0
    low, high = 1, limits.max_model_len
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def in_gib(size_bytes: int) -> str:
    """GiB as vLLM prints them: two decimals, trailing zeros dropped."""
    return str(round(size_bytes / GIB, 2))


class Capacity(NamedTuple):
    """What a budget holds."""

    num_blocks: int | None
    max_model_len: int
    longest_model_len: int
    error: str | None = None
    """Why vLLM would not start: one request does not fit."""


MORE_MEMORY = "--gpu-memory-utilization or --kv-cache-memory-bytes"
"""What gives a KV cache more memory, where it is not known which of them it came from."""


def fit(
    need: Need,
    block_bytes: Sequence[int],
    available: Sequence[int],
    limits: Limits,
    *,
    num_gpu_blocks_override: int | None,
    auto_fit: bool,
) -> Capacity:
    """Blocks for the budgets, or why they are too small.

    ``block_bytes`` and ``available``: bytes of a block, and of the budget, on each pipeline stage. ``auto_fit``:
    max_model_len shrinks to what fits (--max-model-len auto). One block, the null block, is never a request's.
    """
    remedy = f"raise {MORE_MEMORY}, or lower --max-model-len"
    if num_gpu_blocks_override is not None:
        available = [num_gpu_blocks_override * size for size in block_bytes]
        remedy = "raise --num-gpu-blocks-override or lower --max-model-len"
    budgets = [budget - size for budget, size in zip(available, block_bytes, strict=True)]
    fitting = [longest_model_len(need, size, b, limits) for size, b in zip(block_bytes, budgets, strict=True)]
    longest = min(fitting)
    if auto_fit and longest > 0:
        limits = limits._replace(max_model_len=longest)
    for size, budget, length in zip(block_bytes, budgets, fitting, strict=True):
        reason = shortage(size * need.blocks(limits), budget, length, limits.max_model_len)
        if reason:
            return Capacity(None, limits.max_model_len, longest, f"vLLM does not start: {reason}; {remedy}.")
    blocks = min([budget // size for budget, size in zip(available, block_bytes, strict=True)])
    return Capacity(blocks, limits.max_model_len, longest)


def shortage(needed: int, budget: int, longest: int, max_model_len: int) -> str | None:
    """Why a budget (bytes without the null block) does not hold one request; None where it does."""
    if budget <= 0:
        return "the KV cache budget does not hold a block besides the null block"
    if needed <= budget:
        return None
    fits = f", which hold at most {longest} tokens" if longest > 0 else ", which do not hold a single token"
    alike = in_gib(needed) == in_gib(budget)
    short = f" ({needed - budget:,} bytes less)" if alike else ""
    return (
        f"one request of max_model_len {max_model_len} needs {in_gib(needed)} GiB of KV cache and "
        f"{in_gib(budget)} GiB are available besides the null block{short}{fits}"
    )


def concurrency(num_blocks: int, blocks: int, max_model_len: int) -> tuple[int, float]:
    """(kv_cache_size_tokens, max_concurrency) of a pool, in vLLM's floating-point arithmetic."""
    if blocks <= 0:
        raise CannotPlan("a request would hold no block of any group, so vLLM cannot size the pool.")
    ratio = num_blocks / blocks
    return int(ratio * max_model_len), ratio
