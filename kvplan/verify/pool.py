"""What a start-up of one release must print: groups, bytes of a block, and the numbers of a pool.

Pure: from 0.33.0's layers (respec.Base), the rules of the release and the memory to numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan.errors import Refused
from kvplan.layout import is_block_outermost
from kvplan.logs.capacity import (
    Printed,
    in_flight_tokens,
    mamba_request_blocks,
    retained_tokens,
    tokens_and_concurrency,
)
from kvplan.logs.rules import Rules
from kvplan.planning.capacity import bytes_per_block, spec_blocks
from kvplan.planning.groups import on_stages
from kvplan.planning.layer_set import CannotPlan, Grouped
from kvplan.planning.uniform_page import Bucket, GroupSize, least_padding_group_size
from kvplan.spec import WINDOW_KINDS, AttentionSpec, CacheLayer, Limits, Spec, StateSpec
from kvplan.verify.grouping import Groups, PaddedBucket, release_groups
from kvplan.verify.manager import is_disabled
from kvplan.verify.respec import Base, Sizes, respec, sizes, state_mode

_LAYER_OUTERMOST = "LBNHC"
"""What layouts before 0.29.0 amount to: a block is one page of each layer of a group."""


class ReleasePlan(NamedTuple):
    """A deployment as one release plans it."""

    rules: Rules
    sizes: Sizes
    groups: tuple[Grouped, ...]
    block_bytes: tuple[int, ...]
    """Bytes of a block on each pipeline stage."""
    padding: tuple[PaddedBucket, ...]
    layout: str | None
    """None before 0.29.0, when it was not resolved."""
    limits: Limits
    mode: str
    configured_block_size: int
    layers: tuple[CacheLayer, ...]
    """With the release's specs, before pages are unified."""
    whole_block_bytes: int
    """Bytes of a block that holds all stages' layers."""
    prefill_context_parallel_size: int = 1

    def group_blocks(self, max_model_len: int) -> tuple[int, ...]:
        """Blocks of each group that one request of ``max_model_len`` takes."""
        limits = self.limits._replace(max_model_len=max_model_len)
        return tuple(max(self._blocks(spec, limits) for spec in _specs(group)) for group in self.groups)

    def _blocks(self, spec: Spec, limits: Limits) -> int:
        if not isinstance(spec, StateSpec):
            return spec_blocks(spec, limits)
        return mamba_request_blocks(
            self.rules,
            mode=self.mode,
            num_speculative_tokens=spec.num_speculative_blocks,
            max_model_len=limits.max_model_len,
            mamba_block_size=limits.max_model_len if self.mode == "none" else spec.block_size,
            checkpoint_blocks=spec.num_prefill_checkpoint_blocks,
        )

    def layer_bytes(self, max_model_len: int) -> tuple[int, ...]:
        """Bytes that one request holds in each stage's layers, each reckoned alone."""
        limits = self.limits._replace(max_model_len=max_model_len)
        known: dict[Spec, int] = {}
        out = [0] * len(self.block_bytes)
        for layer in self.layers:
            if layer.spec not in known:
                known[layer.spec] = self._blocks(layer.spec, limits) * layer.spec.page_size_bytes
            out[layer.stage] += known[layer.spec]
        return tuple(out)

    def printed(self, num_blocks: int, max_model_len: int) -> Printed:
        """The tokens and the concurrency that a pool of ``num_blocks`` blocks prints."""
        return tokens_and_concurrency(
            self.rules,
            num_blocks=num_blocks,
            per_group_blocks=self.group_blocks(max_model_len),
            block_sizes=[self._block_size(group, max_model_len) for group in self.groups],
            max_model_len=max_model_len,
            page_sizes=[page_bytes(group) for group in self.groups],
            configured_block_size=self.configured_block_size,
            decode_context_parallel_size=self.limits.decode_context_parallel_size,
            prefill_context_parallel_size=self.prefill_context_parallel_size,
        )

    def _block_size(self, group: Grouped, max_model_len: int) -> int:
        return max_model_len if isinstance(group.spec, StateSpec) and self.mode == "none" else group.spec.block_size


def needed_bytes(plan: ReleasePlan, max_model_len: int) -> tuple[int, ...]:
    """What the release's check asks of each pipeline stage's memory for one request; one number where one decides."""
    held = plan.group_blocks(max_model_len)
    if plan.rules.check == "layers":
        return plan.layer_bytes(max_model_len)
    if plan.rules.check == "all_stages":
        return (plan.whole_block_bytes * sum(held),)
    return tuple(size * sum(held) for size in plan.block_bytes)


def longest_model_len(plan: ReleasePlan, memory: Sequence[int], max_model_len: int) -> int:
    """The longest length that the release's error names for this memory of the stages (bytes); 0 where none fits."""
    reserved = plan.block_bytes if plan.rules.null_block == "reserved" else (0,) * len(memory)
    budgets = [size - block for size, block in zip(memory, reserved, strict=True)]

    def fits(length: int) -> bool:
        needed = needed_bytes(plan, length)
        if len(needed) != len(budgets):
            return needed[0] <= min(budgets)
        return all(need <= budget for need, budget in zip(needed, budgets, strict=True))

    return bisect_left(range(1, max_model_len + 1), True, key=lambda length: not fits(length))


def page_bytes(group: Grouped) -> int:
    """Bytes of a block that the group's layers use where pages differ, else one layer's page."""
    if group.layer_specs is None:
        return group.spec.page_size_bytes
    return sum(spec.page_size_bytes for spec in group.layer_specs)


def _specs(group: Grouped) -> tuple[Spec, ...]:
    return (group.spec,) if group.layer_specs is None else tuple({id(s): s for s in group.layer_specs}.values())


def release_plan(
    rules: Rules,
    base: Base,
    *,
    layout: str,
    told_mode: str | None,
    told_v2_runner: bool | None = None,
    min_kv_cache_group_layers: int | None = None,
) -> ReleasePlan:
    """The deployment as the release plans it.

    ``layout``: the resolved one. ``told_mode`` and ``told_v2_runner``: mamba_cache_mode and the model runner as the log
    tells them; None: as 0.33.0 resolves them.

    ``min_kv_cache_group_layers``: grouped as vLLM pull request 58207 does; None: as released.

    CannotPlan where the release's own planning stops; Refused where it is not verified.
    """
    config = base.config
    mode = state_mode(rules, config, told_mode)
    made = sizes(rules, base, mode)
    layers = _retained(rules, base, respec(rules, base, made))
    resolved = layout if rules.layout == "six" else None
    outermost = resolved is not None and is_block_outermost(resolved)
    limits = _limits(rules, base, mode, told_v2_runner)
    groups = release_groups(
        rules,
        layers,
        block_outermost=outermost,
        disable_hybrid_kv_cache_manager=is_disabled(rules, config),
        group_size=None if min_kv_cache_group_layers is None else least_padding(limits, min_kv_cache_group_layers),
    )
    if not groups.groups:
        raise CannotPlan("the model has no KV cache, so a start-up prints no tokens")
    return ReleasePlan(
        rules=rules,
        sizes=made,
        groups=groups.groups,
        block_bytes=_block_bytes(rules, groups, layers, resolved or _LAYER_OUTERMOST, config.pipeline_parallel_size),
        padding=groups.padding,
        layout=resolved,
        limits=limits,
        mode=mode,
        configured_block_size=made.block_size,
        layers=layers,
        whole_block_bytes=groups.packed_bytes or bytes_per_block(groups.groups, resolved or _LAYER_OUTERMOST),
        prefill_context_parallel_size=config.prefill_context_parallel_size,
    )


def least_padding(limits: Limits, minimum: int) -> GroupSize:
    """The group size of vLLM pull request 58207."""

    def size(buckets: Sequence[Bucket]) -> int:
        counts = [len(bucket.layers) for bucket in buckets]
        worst = [max(spec_blocks(spec, limits) * spec.page_size_bytes for spec in each.specs) for each in buckets]
        return least_padding_group_size(counts, worst, minimum)

    return size


def _limits(rules: Rules, base: Base, mode: str, told_v2_runner: bool | None) -> Limits:
    config = base.config
    in_flight = in_flight_tokens(
        rules,
        max_num_batched_tokens=config.max_num_batched_tokens,
        async_scheduling=config.async_scheduling,
        pipeline_parallel_size=config.pipeline_parallel_size,
        v2_model_runner=config.use_v2_model_runner if told_v2_runner is None else told_v2_runner,
    )
    return Limits(
        max_model_len=config.max_model_len,
        max_in_flight_tokens=in_flight,
        mamba_cache_mode=mode,
        decode_context_parallel_size=config.decode_context_parallel_size,
        max_num_encoder_input_tokens=config.max_num_encoder_input_tokens,
    )


def _retained(rules: Rules, base: Base, layers: tuple[CacheLayer, ...]) -> tuple[CacheLayer, ...]:
    """Window layers widened by what a chain of MTP modules retains."""
    speculative = base.config.speculative
    if speculative is None:
        return layers
    extra = retained_tokens(
        rules,
        num_speculative_tokens=speculative.num_speculative_tokens,
        multi_module_mtp=speculative.use_multi_module_mtp,
        eagle_like=speculative.use_eagle,
    )
    if not extra:
        return layers
    return tuple(layer._replace(spec=_widened(layer.spec, extra)) for layer in layers)


def _widened(spec: Spec, extra: int) -> Spec:
    if isinstance(spec, AttentionSpec) and spec.kind in WINDOW_KINDS:
        return spec.rebuilt(extra_retained_tokens=extra)
    return spec


def _block_bytes(
    rules: Rules, groups: Groups, layers: Sequence[CacheLayer], layout: str, num_stages: int
) -> tuple[int, ...]:
    """Bytes of a block on each pipeline stage."""
    if groups.packed_bytes is not None:
        if num_stages > 1:
            raise Refused(f"pipeline stages of packed groups are not verified for vLLM {rules.release}.")
        return (groups.packed_bytes,)
    if num_stages == 1:
        return (bytes_per_block(groups.groups, layout),)
    if len(groups.groups) > 1 and rules.reports == "each_rank":
        raise Refused(
            f"each pipeline stage makes its own groups under vLLM {rules.release}, which is verified for one group "
            "only."
        )
    staged = on_stages(groups.groups, [layer.stage for layer in layers], num_stages)
    return tuple(bytes_per_block(own, layout) for own in staged)


def possible_blocks(plan: ReleasePlan, memory: Sequence[range | None]) -> range:
    """The numbers of blocks that the memory of the stages can be.

    ``memory``: the possible bytes of each stage, None where nothing is known of it.
    """
    known = [(each, size) for each, size in zip(memory, plan.block_bytes, strict=True) if each is not None]
    if not known:
        return range(0)
    lows, highs = ([each[end] // size for each, size in known] for end in (0, -1))
    return range(max(min(lows), 0), max(min(highs), 0) + 1)


def outcomes(plan: ReleasePlan, blocks: range, max_model_len: int, limit: int) -> Iterator[tuple[int, Printed]]:
    """Each possible number of blocks with what it prints; at most ``limit``, from the fewest on."""
    for number in blocks[:limit]:
        yield number, plan.printed(number, max_model_len)
