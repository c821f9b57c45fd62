"""Which layout a worker prefers and why: the rule of `vllm-next`.

vLLM 0.33.0 takes the first candidate. The pull request that this follows moves the block-outermost candidates to the
front when three conditions hold. Each is reported with the layers, backends and sizes of this plan that decided it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.result import Plan, Reason
from kvplan.spec import FULL_KINDS, AttentionSpec, CacheLayer, MultipleOf

RELEASED = "vllm-0.33.0"
NEXT = "vllm-next"
ENGINES = (RELEASED, NEXT)

PADDING = "padding"
WORST_CASE = "worst-case"
COST_CHECKS = (PADDING, WORST_CASE)

MIXED = "mixed page sizes"
WHOLE = "blocks run whole"
COST = "packing costs less"


def preferred(candidates: Sequence[str], reasons: Sequence[Reason]) -> tuple[str, ...]:
    """The candidates, those with blocks outermost first where every condition holds."""
    if not all(reason.holds for reason in reasons):
        return tuple(candidates)
    return tuple(sorted(candidates, key=lambda name: not name.startswith("B")))


def mixed_pages(layers: Sequence[CacheLayer]) -> Reason:
    """Condition 1: the layers' pages differ in size, so that one block can hold what groups would pad."""
    first: dict[int, str] = {}
    for layer in layers:
        first.setdefault(layer.spec.page_size_bytes, layer.name)
    if len(first) < 2:
        return Reason(MIXED, False, f"every page has {next(iter(first), 0):,} bytes, so there is nothing to pack")
    (small, a), (large, b) = min(first.items()), max(first.items())
    return Reason(MIXED, True, f"pages of {small:,} bytes ({a}) to {large:,} bytes ({b})")


def takes_whole(layer: CacheLayer) -> bool:
    """Whether the layer's backend takes its manager block as one kernel block."""
    size = layer.spec.block_size
    return any(size % s.base == 0 if isinstance(s, MultipleOf) else size == s for s in layer.kernel_block_sizes)


def whole_blocks(layers: Sequence[CacheLayer]) -> Reason:
    """Condition 2: no attention layer's block would have to be split, for a packed block cannot be."""
    attention = [layer for layer in layers if isinstance(layer.spec, AttentionSpec)]
    for layer in attention:
        if not takes_whole(layer):
            why = (
                f"{layer.backend} takes kernel blocks of {sizes_in_words(layer.kernel_block_sizes)}, so it would have "
                f"to split the {layer.spec.block_size:,}-token blocks of {layer.name}"
            )
            return Reason(WHOLE, False, why)
    backends = tuple(dict.fromkeys(layer.backend for layer in attention))
    blocks = ", ".join(f"{size:,}" for size in sorted({layer.spec.block_size for layer in attention}))
    who = " and ".join(backends) or "no attention backend"
    runs = "run" if len(backends) > 1 else "runs"
    return Reason(WHOLE, True, f"{who} {runs} blocks of {blocks or 'no'} tokens unsplit")


def sizes_in_words(sizes: Sequence[int | MultipleOf]) -> str:
    """``16, 32 or 64 tokens``; ``any multiple of 16 tokens``."""
    words = [f"any multiple of {s.base}" if isinstance(s, MultipleOf) else str(s) for s in sizes]
    return (" or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)) + " tokens"


def padded_full_attention(plan: Plan) -> list[str]:
    """First layer of each full attention group that the plan pads."""
    return [group.layers[0] for group in plan.groups if group.kind in FULL_KINDS and group.padding_pages]


def request_bytes(plan: Plan) -> int:
    """Bytes of the blocks that one request of the greatest length holds."""
    return (plan.bytes_per_block or 0) * (plan.blocks_per_request or 0)


def cost(uniform: Plan, packed: Plan, check: str) -> Reason:
    """Condition 3: packing is worth it.

    ``padding`` is the pull request's rule: the layer-outermost grouping would pad full attention, or packing needs
    fewer groups. ``worst-case`` is its review's: packing takes fewer bytes for one request of the greatest length.
    """
    if uniform.error or packed.error:
        return Reason(COST, False, uniform.error or packed.error or "")
    ours, theirs = len(packed.groups), len(uniform.groups)
    bytes_packed, bytes_not = request_bytes(packed), request_bytes(uniform)
    need = f"one request of the greatest length takes {bytes_packed:,} bytes packed, {bytes_not:,} not"
    if check == WORST_CASE:
        return Reason(COST, bytes_packed < bytes_not, need)
    padded = padded_full_attention(uniform)
    groups = f"{ours} group{'' if ours == 1 else 's'} packed against {theirs}"
    if padded:
        why = f"without packing, the full attention group of {padded[0]} is padded ({groups})"
    elif ours < theirs:
        why = f"fewer groups: {groups}"
    else:
        why = f"{groups}, and no full attention padding to remove"
    disagrees = (bool(padded) or ours < theirs) != (bytes_packed < bytes_not)
    return Reason(COST, bool(padded) or ours < theirs, f"{why}; but {need}" if disagrees else why)


def conditions(layers: Sequence[CacheLayer], uniform: Plan, packed: Plan, check: str = PADDING) -> tuple[Reason, ...]:
    """The three conditions of the preference, in the order in which they are tried."""
    return mixed_pages(layers), whole_blocks(layers), cost(uniform, packed, check)
