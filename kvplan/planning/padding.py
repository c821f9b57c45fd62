"""Where the bytes of one request go: every byte of the blocks it holds belongs to exactly one category.

The categories are those of `kvplan.result.CATEGORIES`; they add up to bytes per block x blocks per request.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from kvplan.planning.capacity import stride_bytes
from kvplan.planning.layer_set import Grouped
from kvplan.result import CATEGORIES, Padding, RequestCost
from kvplan.spec import CROSS_ATTENTION, FULL_KINDS, AttentionSpec, Limits, Spec, StateSpec, cdiv


class Share(NamedTuple):
    """Layers of one group that have one spec and one owner."""

    spec: Spec
    owner: str
    layers: int
    occupied: int
    """Bytes of a block that each of them occupies: its page, layer-outermost its stride."""


class Holding(NamedTuple):
    """What one request holds of some equal groups."""

    shares: tuple[Share, ...]
    groups: int
    """How many equal groups there are."""
    blocks: int
    """Blocks of each group that one request of max_model_len holds."""
    unused: int
    """Bytes of a block that no layer occupies."""
    block_size: int
    grows: bool
    dcp_sharded: bool


def holdings_of(
    groups: Sequence[Grouped], blocks: Sequence[int], owners: Sequence[str], block_bytes: int, *, block_outermost: bool
) -> list[Holding]:
    """What one request holds, equal groups together.

    ``blocks``: per group, the blocks of one request. ``owners``: the owner of each layer. ``block_bytes``: bytes of
    one block.
    """
    seen: dict[tuple[object, ...], Holding] = {}
    for group, held in zip(groups, blocks, strict=True):
        counts = share_counts(group, owners)
        key = tuple([(spec_id, owner, count) for (spec_id, owner), (_, count) in counts.items()])
        found = seen.get(key)
        if found is not None:
            seen[key] = found._replace(groups=found.groups + 1)
            continue
        shares = tuple(
            [
                Share(spec, owner, count, spec.page_size_bytes if block_outermost else stride_bytes(spec))
                for (_, owner), (spec, count) in counts.items()
            ]
        )
        spec = group.spec
        seen[key] = Holding(
            shares=shares,
            groups=1,
            blocks=held,
            unused=block_bytes - sum([share.occupied * share.layers for share in shares]),
            block_size=spec.block_size,
            grows=spec.kind in FULL_KINDS,
            dcp_sharded=spec.dcp_sharded,
        )
    return list(seen.values())


def share_counts(group: Grouped, owners: Sequence[str]) -> dict[tuple[int, str], tuple[Spec, int]]:
    """The group's layers counted by spec object and owner."""
    counts: dict[tuple[int, str], tuple[Spec, int]] = {}
    specs = group.layer_specs or (group.spec,) * len(group.layers)
    for layer, spec in zip(group.layers, specs, strict=True):
        key = (id(spec), owners[layer])
        counts[key] = (spec, counts[key][1] + 1 if key in counts else 1)
    return counts


def request_bytes(holdings: Sequence[Holding], limits: Limits) -> tuple[dict[str, int], dict[str, int]]:
    """One request's bytes at max_model_len by category, and named parts of the categories."""
    bytes_by = dict.fromkeys(CATEGORIES, 0)
    parts: dict[str, int] = {}
    for holding in holdings:
        padding = "growing_padding" if holding.grows else "bounded_padding"
        bytes_by[padding] += holding.unused * holding.blocks * holding.groups
        for share in holding.shares:
            layers = share.layers * holding.groups
            page = share.spec.unpadded_page_size_bytes
            bytes_by["page_rounding"] += (share.occupied - page) * holding.blocks * layers
            _count_pages(share, holding.blocks, layers, page, limits, bytes_by, parts)
    return bytes_by, parts


def _count_pages(
    share: Share, blocks: int, layers: int, page: int, limits: Limits, bytes_by: dict[str, int], parts: dict[str, int]
) -> None:
    """Adds the unpadded pages of ``layers`` layers that hold ``blocks`` blocks each."""
    spec = share.spec
    if isinstance(spec, StateSpec):
        bytes_by["state"] += page * layers
        bytes_by["speculative_state"] += page * layers * (blocks - 1)
        _add(parts, "state_checkpoints", page * layers * (blocks - 1 - spec.num_speculative_blocks))
        return
    if spec.kind in FULL_KINDS or spec.kind == CROSS_ATTENTION:
        held = held_bytes(spec, blocks, limits)
        bytes_by[f"{share.owner}_kv"] += held * layers
        bytes_by["tail_rounding"] += (page * blocks - held) * layers
        return
    bytes_by[f"{share.owner}_window"] += page * blocks * layers
    settled = spec.blocks_per_request(limits._replace(max_in_flight_tokens=0))
    _add(parts, f"{share.owner}_window_in_flight", page * (blocks - settled) * layers)


def _add(parts: dict[str, int], name: str, size: int) -> None:
    if size:
        parts[name] = parts.get(name, 0) + size


def held_bytes(spec: AttentionSpec, blocks: int, limits: Limits) -> int:
    """Bytes of the states that a layer really stores of its tokens, in ``blocks`` blocks."""
    tokens = limits.max_num_encoder_input_tokens if spec.kind == CROSS_ATTENTION else limits.max_model_len
    if spec.kind != CROSS_ATTENTION and spec.dcp_sharded:
        tokens = cdiv(tokens, limits.decode_context_parallel_size)
    states = int(-(-tokens // spec.tokens_per_state))
    return min(states, blocks * spec.num_states) * spec.num_heads * spec.state_content_size_bytes


def cost_of(holdings: Sequence[Holding], block_bytes: int, limits: Limits) -> tuple[Padding, RequestCost]:
    """The padding lines and the straight line through a request's size."""
    bytes_by, parts = request_bytes(holdings, limits)
    dcp = limits.decode_context_parallel_size
    growing = [
        (holding, holding.block_size * (dcp if holding.dcp_sharded else 1)) for holding in holdings if holding.grows
    ]
    unit = lcm(*(tokens for _, tokens in growing))
    unused = slope = useful = 0
    for holding, tokens in growing:
        per_unit = unit // tokens * holding.groups
        unused += holding.unused * per_unit
        slope += block_bytes * per_unit
        useful += sum([s.spec.unpadded_page_size_bytes * s.layers for s in holding.shares]) * per_unit
    padding = Padding(
        growing_bytes_per_token=ratio(unused, unit),
        growing_fraction=unused / useful if useful else 0.0,
        bounded_bytes_per_request=bytes_by["bounded_padding"],
        page_rounding_bytes_per_request=bytes_by["page_rounding"],
    )
    fixed = sum([block_bytes * holding.blocks * holding.groups for holding in holdings if not holding.grows])
    return padding, RequestCost(fixed, ratio(slope, unit), bytes_by, parts)


def ratio(numerator: int, denominator: int) -> int | float:
    """The quotient: an integer where it is one."""
    return numerator // denominator if numerator % denominator == 0 else numerator / denominator
