"""The categories of a request's bytes in plain words, from the groups and layers that hold them.

`describe` says what one plan holds in a category; `contrast` what changed between two, with the numbers that explain
it. Nothing here is a general remark: a category is described by its own layers, pages and blocks or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kvplan.report import kinds, padding
from kvplan.report.numbers import number, plural, size
from kvplan.result import Plan, RequestCost
from kvplan.spec import CROSS_ATTENTION, WINDOW_KINDS, AttentionSpec, CacheLayer, Spec, StateSpec

NAMES = {
    "target_kv": "target KV",
    "drafter_kv": "drafter KV",
    "target_window": "target window",
    "drafter_window": "drafter window",
    "state": "state",
    "speculative_state": "speculative state",
    "growing_padding": "growing padding",
    "bounded_padding": "bounded padding",
    "page_rounding": "page rounding",
    "tail_rounding": "tail rounding",
}

_MOST_PARTS = 3
"""Parts of a category that are named; the rest is counted."""


class Holder(NamedTuple):
    """A plan with what its words are made of."""

    plan: Plan
    layers: Mapping[str, CacheLayer]
    options: Mapping[str, Any]


class Held(NamedTuple):
    """Layers of one spec over all groups of a plan."""

    letter: str
    words: str
    owner: str
    spec: Spec
    """As the group has it: brought to the plan's page."""
    blocks: int
    """Blocks that one request holds in each of the groups."""
    num_layers: int
    num_groups: int


def name(category: str, *holders: Holder) -> str:
    """The category's name in text, for the plans that it is told of.

    The states after a request's first are speculative only where tokens are drafted: prefix caching keeps some too.
    """
    if category == "speculative_state" and holders and not any(_drafts(held) for h in holders for held in _states(h)):
        return "further states"
    return NAMES.get(category, category.replace("_", " "))


def line(cost: RequestCost, length: int) -> str:
    """A request's size as the straight line through it, and what the last blocks have beyond it at ``length`` tokens.

    ``1.46 GiB fixed + 12 KiB (12,288 bytes) per token + 18.5 MiB to the end of the last blocks``.
    """
    text = f"{size(cost.fixed_bytes)} fixed + {padding.per_token(cost.bytes_per_token)}"
    beyond = round(sum(cost.at_max_model_len.values()) - cost.fixed_bytes - cost.bytes_per_token * length)
    return f"{text} + {size(beyond)} to the end of the last blocks" if beyond > 0 else text


def _drafts(held: Held) -> bool:
    return isinstance(held.spec, StateSpec) and held.spec.num_speculative_blocks > 0


def describe(category: str, holder: Holder) -> str:
    """What the plan holds in the category; empty for a category that this version does not know."""
    match category:
        case "target_kv" | "drafter_kv":
            owner = category.removesuffix("_kv")
            return _listed(_kv(held, holder) for held in _holdings(holder) if held.owner == owner and _is_kv(held.spec))
        case "target_window" | "drafter_window":
            owner = category.removesuffix("_window")
            parts = [_window(held, holder) for held in _windows(holder) if held.owner == owner]
            return _listed(iter(parts)) + _in_flight_share(category, holder)
        case "state":
            return _listed(_state(held) for held in _states(holder))
        case "speculative_state":
            return _listed(_further_states(held) for held in _states(holder))
        case "growing_padding":
            return _listed(padding.where(w) for w in _wastes(holder, padding.EMPTY) if w.grows)
        case "bounded_padding":
            return _listed(padding.where(w) for w in _wastes(holder, padding.EMPTY) if not w.grows)
        case "page_rounding":
            return _listed(f"{padding.where(w)}, {_blocks(w)}" for w in _wastes(holder, padding.ROUNDING))
        case "tail_rounding":
            return _tail(holder)
    return ""


def contrast(category: str, before: Holder, after: Holder) -> str:
    """Why the category's bytes differ: what the second plan holds, and where both hold some, what the first held."""
    if category == "state":
        return _contrast_states(before, after)
    if category == "speculative_state":
        return _contrast_further(before, after)
    old, new = describe(category, before), describe(category, after)
    if not old or not new:
        return new or (f"no longer: {old}" if old else "")
    if old == new:
        return f"{new}; other blocks per request: {_block_counts(after)} instead of {_block_counts(before)}"
    return f"{new}; before: {old}"


def _listed(parts: Iterator[str]) -> str:
    """The parts in one line, the ones after the first few counted."""
    found = [part for part in parts if part]
    rest = len(found) - _MOST_PARTS
    if rest > 1:
        found[_MOST_PARTS:] = [f"{rest:,} more"]
    return "; ".join(found)


def _holdings(holder: Holder) -> list[Held]:
    """The layers of a plan by owner, spec and blocks, in the engine's order."""
    found: dict[tuple[str, str, str, Spec, int], list[int]] = {}
    for group in holder.plan.groups:
        seen = set()
        for layer, spec in zip(group.layers, group.layer_specs, strict=True):
            own = holder.layers[layer]
            key = (
                kinds.letter(layer, own.owner, own.spec),
                kinds.words(layer, own.spec),
                own.owner,
                spec,
                group.blocks_per_request,
            )
            counts = found.setdefault(key, [0, 0])
            counts[0] += 1
            counts[1] += key not in seen
            seen.add(key)
    return [Held(*key, *counts) for key, counts in found.items()]


def _states(holder: Holder) -> list[Held]:
    return [held for held in _holdings(holder) if isinstance(held.spec, StateSpec)]


def _windows(holder: Holder) -> list[Held]:
    """Layers whose blocks a length bounds; those that differ only in the bytes of a page together."""
    found: dict[tuple[object, ...], Held] = {}
    for held in _holdings(holder):
        if isinstance(held.spec, AttentionSpec) and not _is_kv(held.spec):
            key = (held.letter, held.words, held.spec.block_size, held.spec.extra_retained_tokens, held.blocks)
            more = found[key].num_layers if key in found else 0
            found[key] = held._replace(num_layers=held.num_layers + more)
    return list(found.values())


def _wastes(holder: Holder, what: str) -> list[padding.Waste]:
    return [w for w in padding.wastes(holder.plan, holder.layers, dcp_size(holder.options)) if w.what == what]


def dcp_size(options: Mapping[str, Any]) -> int:
    """Decode context parallel size: ranks that share the tokens of a sharded block."""
    return int(options.get("decode_context_parallel_size") or 1)


def _is_kv(spec: Spec) -> bool:
    """Whether the layer's pages count as KV that is kept whole: what grows with context, and cross attention."""
    return kinds.grows(spec) or spec.kind == CROSS_ATTENTION


def _layers(held: Held) -> str:
    return f"{plural(held.num_layers, f'{held.letter} layer')} ({held.words})"


def _kv(held: Held, holder: Holder) -> str:
    ranks = dcp_size(holder.options) if held.spec.dcp_sharded else 1
    per_token = held.spec.unpadded_page_size_bytes / (held.spec.block_size * ranks)
    return f"{_layers(held)} of {size(per_token)} per token"


def _window(held: Held, holder: Holder) -> str:
    page = f"{number(held.spec.block_size)} tokens" if held.spec.block_size > 1 else "1 token"
    text = f"{_layers(held)} hold {plural(held.blocks, 'block')} of {page}"
    if held.num_layers == 1:
        text = text.replace(" hold ", " holds ")
    return text + _in_flight(held.spec, holder)


def _in_flight(spec: Spec, holder: Holder) -> str:
    """What a window's blocks are for: the window, further retained tokens, and the tokens in flight."""
    reserve = holder.options.get("max_in_flight_tokens")
    if not isinstance(spec, AttentionSpec) or not reserve:
        return ""
    if spec.kind in WINDOW_KINDS:
        window = f"{number((spec.sliding_window or 1) - 1)} of window"
        if spec.extra_retained_tokens:
            window += f" + {number(spec.extra_retained_tokens)} retained for drafting"
    elif spec.attention_chunk_size:
        window = f"{number(spec.attention_chunk_size)} of chunk"
    else:
        return ""
    return f": {window} + {number(reserve)} in flight"


def _in_flight_share(category: str, holder: Holder) -> str:
    """The bytes that the in-flight reserve adds to the windows."""
    cost = holder.plan.request_cost
    reserve = 0 if cost is None else cost.parts.get(f"{category}_in_flight", 0)
    return f"; {size(reserve)} for the tokens in flight" if reserve else ""


def _state(held: Held) -> str:
    return f"{_layers(held)}: {size(held.spec.unpadded_page_size_bytes)} each"


def _further_states(held: Held) -> str:
    if held.blocks <= 1 or not isinstance(held.spec, StateSpec):
        return ""
    return (
        f"{plural(held.blocks, 'state block')} per request in each of {plural(held.num_groups, f'{held.letter} group')}"
        f": 1{_reasons(held.blocks, held.spec)}"
    )


def _reasons(blocks: int, spec: StateSpec) -> str:
    """What the state blocks after the first are for: `` + 7 drafted + 1 cached prefix``."""
    drafted, checkpoints = spec.num_speculative_blocks, spec.num_prefill_checkpoint_blocks
    align = blocks - 1 - drafted - checkpoints if spec.mamba_cache_mode == "align" or blocks > 1 + drafted else 0
    parts = ((drafted, "drafted"), (align, "cached prefix"), (checkpoints, "prefill checkpoint"))
    return "".join(f" + {n:,} {word}" for n, word in parts if n > 0)


def _tail(holder: Holder) -> str:
    """The growing groups' block sizes: the last block of each table is filled in part."""
    sizes: dict[str, int] = {}
    for held in _holdings(holder):
        if _is_kv(held.spec):
            sizes[held.letter] = held.spec.block_size
    return "last block in part filled, blocks of " + ", ".join(f"{n:,} tokens ({mark})" for mark, n in sizes.items())


def _blocks(waste: padding.Waste) -> str:
    return f"{plural(waste.blocks_per_request, 'block')} each"


def _block_counts(holder: Holder) -> str:
    counts = {h.letter: h.blocks for h in _holdings(holder)}
    return ", ".join(f"{mark} {n:,}" for mark, n in counts.items())


def _contrast_states(before: Holder, after: Holder) -> str:
    """A state's size with its shapes: a drafter adds columns to the convolution state."""
    old = {held.letter: held for held in _states(before)}
    parts = []
    for held in _states(after):
        was = old.get(held.letter)
        text = _state(held)
        if was is not None and was.spec != held.spec and isinstance(was.spec, StateSpec):
            text += f" instead of {size(was.spec.unpadded_page_size_bytes)}{reshaped(was.spec, held.spec)}"
        parts.append(text)
    return _listed(iter(parts)) or f"no longer: {describe('state', before)}"


def reshaped(old: StateSpec, new: Spec) -> str:
    """The shapes and dtypes of a state that differ, in brackets: `` (10x8192 instead of 3x8192)``; or nothing."""
    if not isinstance(new, StateSpec):
        return ""
    pairs = [
        f"{'x'.join(map(str, b))} instead of {'x'.join(map(str, a))}"
        for a, b in zip(old.shapes, new.shapes, strict=False)
        if a != b
    ]
    if old.dtypes != new.dtypes:
        pairs.append(f"{' '.join(dict.fromkeys(new.dtypes))} instead of {' '.join(dict.fromkeys(old.dtypes))}")
    return f" ({', '.join(pairs)})" if pairs else ""


def _contrast_further(before: Holder, after: Holder) -> str:
    """State blocks per request: a drafted token needs a state of its own to roll back to."""
    old = {held.letter: held for held in _states(before)}
    parts = []
    for held in _states(after):
        was = old.get(held.letter)
        if was is None or was.blocks == held.blocks:
            parts.append(_further_states(held))
            continue
        parts.append(
            f"{plural(held.blocks, 'state block')} per request instead of {was.blocks:,} in each of "
            f"{plural(held.num_groups, f'{held.letter} group')}"
        )
    return _listed(iter(parts)) or f"no longer: {describe('speculative_state', before)}"
