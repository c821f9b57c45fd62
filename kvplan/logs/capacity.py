"""The arithmetic behind the numbers that a start-up prints, by release: pure functions of integers and rules.

A planner that knows the groups of a deployment calls these to say what the log of that release must show.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from kvplan.errors import Refused
from kvplan.logs.rules import Rules
from kvplan.units import GIB


class Printed(NamedTuple):
    """What the token and concurrency lines say; ``max_concurrency`` unrounded, ``request_blocks`` what divides."""

    kv_cache_size_tokens: int
    max_concurrency: float
    request_blocks: int | None

    @property
    def concurrency_text(self) -> str:
        """The concurrency as printed: two decimals."""
        return f"{self.max_concurrency:.2f}"


def tokens_and_concurrency(
    rules: Rules,
    *,
    num_blocks: int,
    per_group_blocks: Sequence[int],
    block_sizes: Sequence[int],
    max_model_len: int,
    page_sizes: Sequence[int] | None = None,
    configured_block_size: int | None = None,
    decode_context_parallel_size: int = 1,
    prefill_context_parallel_size: int = 1,
) -> Printed:
    """Tokens and concurrency of a pool of ``num_blocks``, as the release prints them.

    ``per_group_blocks``: blocks of each group that one request of max_model_len takes. ``block_sizes``: tokens in a
    block of each group, the mamba block size for state groups. ``page_sizes``: bytes of one layer's page in each group;
    needed up to 0.26.0 where groups differ in it. ``configured_block_size``: cache_config.block_size, needed up to
    0.10.2 where the groups' block sizes differ (else Refused is raised).
    """
    if rules.token_line == "concurrency_times_length":
        request = request_blocks(rules, per_group_blocks, page_sizes)
        concurrency = num_blocks / request
        return Printed(int(concurrency * max_model_len), concurrency, request)
    block = _line_block_size(rules, block_sizes, configured_block_size)
    tokens = num_blocks // len(per_group_blocks) * block
    one = len(per_group_blocks) == 1
    if rules.context_parallel in ("decode", "decode_and_prefill") or (
        rules.context_parallel == "decode_of_one_group" and one
    ):
        tokens *= decode_context_parallel_size
    if rules.context_parallel == "decode_and_prefill":
        tokens *= prefill_context_parallel_size
    if rules.request_blocks == "from_tokens":
        return Printed(tokens, tokens / max_model_len, None)
    request = request_blocks(rules, per_group_blocks, page_sizes)
    return Printed(tokens, num_blocks / request, request)


def request_blocks(rules: Rules, per_group_blocks: Sequence[int], page_sizes: Sequence[int] | None = None) -> int:
    """Blocks that one request of max_model_len takes from the pool, as the release counts them.

    From 0.27.0 on the sum over the groups; before, the bytes of all groups in pages of the first.
    """
    if rules.request_blocks == "per_group" or page_sizes is None:
        return sum(per_group_blocks)
    used = sum(blocks * page for blocks, page in zip(per_group_blocks, page_sizes, strict=True))
    return -(-used // page_sizes[0])


def mamba_request_blocks(
    rules: Rules,
    *,
    mode: str,
    num_speculative_tokens: int,
    max_model_len: int,
    mamba_block_size: int,
    checkpoint_blocks: int = 0,
) -> int:
    """Blocks of one state group that one request takes.

    ``mode`` is mamba_cache_mode (none, align or all; before 0.15.0 all is what prefix caching means). The mamba block
    size is max_model_len without prefix caching. ``checkpoint_blocks`` is the layer's num_prefill_checkpoint_blocks.
    Raises Refused for a mode or a release without it.
    """
    by_length = -(-max_model_len // mamba_block_size)
    if rules.mamba == "one_block":
        return 1
    if rules.mamba == "model_length":
        return by_length
    if rules.mamba == "none" or mode not in ("none", "align", "all"):
        raise Refused(f"vLLM {rules.release} has no mamba_cache_mode {mode!r} that was verified.")
    if mode == "none":
        return 1 + num_speculative_tokens
    if mode == "align":
        counted = checkpoint_blocks if rules.mamba.startswith("checkpoints") else 0
        return 2 + num_speculative_tokens + counted
    if rules.mamba == "checkpoints_without_all":
        raise Refused(f"vLLM {rules.release} has no mamba_cache_mode 'all' any more; it was removed in 0.32.0.")
    return by_length + (0 if rules.mamba == "cache_mode" else num_speculative_tokens)


class Alignment(NamedTuple):
    """What the attention block of a hybrid model is aligned to, by release.

    ``smallest_kernel_block``: of the first attention backend; ``every_smallest_kernel_block``: of each backend;
    ``mla``, ``cutlass_mla`` (the backend asked for), ``blackwell_head_256`` (capability 10.0, head size 256, FlashInfer
    or no backend asked for); ``chunk``: the mamba block size asked for, else the model's chunk size, in all mode;
    ``checkpoint``: the prefill checkpoint alignment in align mode, 1 when there is none.
    """

    smallest_kernel_block: int = 16
    every_smallest_kernel_block: tuple[int, ...] = ()
    mla: bool = False
    cutlass_mla: bool = False
    blackwell_head_256: bool = False
    chunk: int = 1
    checkpoint: int = 1


def hybrid_block_size(
    rules: Rules,
    *,
    state_bytes: int,
    attention_bytes_per_token: int,
    block_size: int = 16,
    mode: str = "none",
    alignment: Alignment | None = None,
) -> int:
    """Tokens in an attention block of a hybrid model: at least ``block_size``, and one page holds one state.

    ``state_bytes`` and ``attention_bytes_per_token`` are one layer's. ``mode`` is mamba_cache_mode; before 0.15.0
    all is what prefix caching means. Raises Refused for a release without this alignment.
    """
    alignment = alignment or Alignment()
    step = _hybrid_step(rules, block_size, alignment)
    if mode == "all" and rules.hybrid_block != "multiple_of_16":
        step = lcm(alignment.chunk, step)
    if mode == "align" and rules.hybrid_block == "every_backend_checkpoints":
        step = lcm(step, alignment.checkpoint)
    block = step * -(-state_bytes // (step * attention_bytes_per_token))
    if rules.hybrid_block.startswith("every_backend"):
        common = lcm(*alignment.every_smallest_kernel_block)
        block = common * -(-block // common)
    return max(block, block_size)


def _hybrid_step(rules: Rules, block_size: int, alignment: Alignment) -> int:
    rule = rules.hybrid_block
    if rule == "none":
        raise Refused(f"vLLM {rules.release} does not align the attention block of hybrid models; it is set by hand.")
    if rule == "multiple_of_16":
        return 16
    if rule.startswith("by_kind"):
        if alignment.mla:
            return 128 if alignment.cutlass_mla else 64
        return 32 if rule == "by_kind" and alignment.blackwell_head_256 else 16
    step = max(alignment.smallest_kernel_block, block_size)
    return max(step, 128) if alignment.mla and rule != "backend" else step


def in_flight_tokens(
    rules: Rules,
    *,
    max_num_batched_tokens: int,
    async_scheduling: bool,
    pipeline_parallel_size: int = 1,
    v2_model_runner: bool = False,
) -> int:
    """Tokens that a window layer reserves beyond its window (config/vllm.py max_concurrent_batches from 0.26.0 on)."""
    if rules.in_flight == "one_batch":
        return max_num_batched_tokens
    batches = pipeline_parallel_size
    if async_scheduling:
        batches = pipeline_parallel_size + 1 if v2_model_runner else max(pipeline_parallel_size, 2)
    return batches * max_num_batched_tokens


def retained_tokens(
    rules: Rules, *, num_speculative_tokens: int, multi_module_mtp: bool, eagle_like: bool = False
) -> int:
    """Tokens that window layers retain beyond the window for a drafter (SlidingWindowSpec.extra_retained_tokens).

    ``multi_module_mtp``: method mtp with more than one module in use. ``eagle_like``: the drafter runs on the target's
    hidden states (SpeculativeConfig.use_eagle).
    """
    if rules.retained == "none" or not multi_module_mtp:
        return 0
    if rules.retained == "prefill_lookahead" and not eagle_like:
        return 0
    return num_speculative_tokens - 1


def bytes_printed_as(gib: float) -> range:
    """All numbers of bytes that vLLM prints as this many GiB (two decimals); empty for what it cannot print."""
    around = range(int((gib - 1) * GIB), int((gib + 1) * GIB))
    low = bisect_left(around, gib, key=lambda size: round(size / GIB, 2))
    high = bisect_right(around, gib, key=lambda size: round(size / GIB, 2))
    return around[low:high]


def blocks_printed_as(gib: float, bytes_per_block: int) -> range:
    """The numbers of blocks that this much KV memory can be, given its printed GiB."""
    possible = bytes_printed_as(gib)
    if not possible or possible[-1] < 0:
        return range(0)
    return range(max(possible[0], 0) // bytes_per_block, possible[-1] // bytes_per_block + 1)


def _line_block_size(rules: Rules, block_sizes: Sequence[int], configured: int | None) -> int:
    several = len(block_sizes) > 1
    if rules.token_line == "pool_times_smallest_block" or (rules.token_line == "one_group_times_block" and several):
        return min(block_sizes)
    if configured is not None:
        return configured
    if len(set(block_sizes)) > 1:
        raise Refused(f"vLLM {rules.release} counts tokens in the configured block size; give --block-size.")
    return block_sizes[0]
