"""What a change did to the groups themselves: pages, blocks, group sizes, layouts, options, each with its reason."""

from __future__ import annotations

from typing import Any

from kvplan.comparison import Deployment, changed_options
from kvplan.report import costs, kinds
from kvplan.report.numbers import number, plural, size
from kvplan.result import Plan
from kvplan.spec import CacheLayer, StateSpec

_SHOWN_ELSEWHERE = frozenset({"block_size", "mamba_block_size"})


def holder(side: Deployment, grouping: str | None = None) -> costs.Holder:
    """One of the side's plans (the used one) with what its words are made of."""
    return costs.Holder(side.plans[grouping or side.selected], side.layers, side.options)


def structure(before: Deployment, after: Deployment) -> list[str]:
    """What differs between the plans that the engine uses, in sentences without full stops."""
    old, new = before.plan, after.plan
    found = [
        *(_who(before, after) if after.name else ()),
        _options(before, after),
        _selection(before, after),
        _state(before, after),
        _block_size(before, after),
        _page(before, after),
        _groups(old, new, after),
    ]
    return [text for text in found if text]


def _who(before: Deployment, after: Deployment) -> list[str]:
    """What two documents are about, where it is not the same."""
    out = [] if before.model == after.model else [f"model {after.model} instead of {before.model}"]
    if before.drafter != after.drafter:
        out.append(f"drafter {_drafter(after)} instead of {_drafter(before)}")
    return out


def _drafter(deployment: Deployment) -> str:
    drafter = deployment.drafter
    if drafter is None:
        return "none"
    return f"{drafter.id} ({drafter.method}, {plural(drafter.num_speculative_tokens, 'token')})"


def _options(before: Deployment, after: Deployment) -> str:
    parts = [
        f"{name} {_shown(name, new)} instead of {_shown(name, old)}"
        for name, (old, new) in changed_options(before, after).items()
        if name not in _SHOWN_ELSEWHERE
    ]
    return f"options: {', '.join(parts)}" if parts else ""


def _shown(name: str, value: Any) -> str:
    """An option's value: bytes as a size, other counts with separators."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return size(value) if name.endswith("_bytes") else number(value)
    return "none" if value is None else str(value)


def _selection(before: Deployment, after: Deployment) -> str:
    if (before.engine, before.selected, before.plan.layout) == (after.engine, after.selected, after.plan.layout):
        return ""
    old, new = (f"{side.engine} uses {side.selected} under {side.plan.layout}" for side in (before, after))
    return f"{new}, before: {old}"


def _states(side: Deployment) -> dict[str, StateSpec]:
    found: dict[str, StateSpec] = {}
    for name, layer in side.layers.items():
        if isinstance(layer.spec, StateSpec):
            found.setdefault(kinds.letter(name, layer.owner, layer.spec), layer.spec)
    return found


def _state(before: Deployment, after: Deployment) -> str:
    """A convolution state gets one more column for each drafted token."""
    old = _states(before)
    parts = []
    for mark, spec in _states(after).items():
        was = old.get(mark)
        if was is not None and was.unpadded_page_size_bytes != spec.unpadded_page_size_bytes:
            sizes = f"{size(spec.unpadded_page_size_bytes)} instead of {size(was.unpadded_page_size_bytes)}"
            parts.append(f"the state of {mark} is {sizes}{costs.reshaped(was, spec)}")
    return "; ".join(parts)


def _block_size(before: Deployment, after: Deployment) -> str:
    old, new = before.options.get("block_size"), after.options.get("block_size")
    if old == new or old is None or new is None:
        return ""
    text = f"the attention block is {plural(new, 'token')} instead of {number(old)}"
    states = max((spec.unpadded_page_size_bytes for spec in _states(after).values()), default=0)
    return text + (f", so that its page holds a state of {size(states)}" if states else "")


def _largest(side: Deployment) -> CacheLayer | None:
    return max(side.layers.values(), key=lambda layer: layer.spec.page_size_bytes, default=None)


def _page(before: Deployment, after: Deployment) -> str:
    """The layer with the largest page, to which uniform pages are brought."""
    old, new = _largest(before), _largest(after)
    if old is None or new is None or old.spec.page_size_bytes == new.spec.page_size_bytes:
        return ""
    mark = kinds.letter(new.name, new.owner, new.spec)
    what = f"{mark} ({kinds.words(new.name, new.spec)}, {kinds.heads(new.spec)})"
    text = f"the largest page is {size(new.spec.page_size_bytes)} instead of {size(old.spec.page_size_bytes)}: {what}"
    return text + ("" if after.plan.group_size is None else ", and every page is brought to it")


def _groups(old: Plan, new: Plan, after: Deployment) -> str:
    if len(old.groups) == len(new.groups) and old.group_size == new.group_size:
        return ""
    text = plural(len(new.groups), "group")
    text += " as before" if len(old.groups) == len(new.groups) else f" instead of {number(len(old.groups))}"
    if new.group_size is None:
        return text
    text += f", {plural(new.group_size, 'layer')} in a group"
    if old.group_size is not None and old.group_size != new.group_size:
        text += f" instead of {number(old.group_size)}"
    return text + (_smallest(after, new.group_size) if after.selected == "main" else "")


def _smallest(side: Deployment, group_size: int) -> str:
    """The set of like layers that made the group size, where it is the smallest set."""
    counts = {fold.letter: 0 for fold in kinds.fold(side.layers.values())}
    words = {}
    for fold in kinds.fold(side.layers.values()):
        counts[fold.letter] += len(fold.layers)
        words[fold.letter] = fold.words
    mark = min(counts, key=lambda key: counts[key], default="")
    if not mark or counts[mark] != group_size or len(counts) < 2:
        return ""
    return f": there {'is' if group_size == 1 else 'are'} only {plural(group_size, f'{mark} layer')} ({words[mark]})"
