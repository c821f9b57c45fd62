"""Advice as sentences: the flag to paste first, then what planning with it gave."""

from __future__ import annotations

from kvplan.advice import PACKING, STARTING, Advice, gain, request_bytes
from kvplan.report.numbers import number, plural, share, size
from kvplan.result import Plan


def advice_words(found: Advice) -> str:
    """The change and what it gains."""
    return f"{' '.join(found.flags)}: {_gained(found)}"


def _gained(found: Advice) -> str:
    before, after = found.before, found.after
    how = _how(found)
    if found.aim == STARTING:
        return f"starts, {_holds(after)}{how}"
    gained = share(gain(before, after))
    if before.kv_cache_size_tokens and after.kv_cache_size_tokens:
        tokens = f"{number(after.kv_cache_size_tokens)} tokens instead of {number(before.kv_cache_size_tokens)}"
        return f"{tokens} ({gained}){how}"
    return f"{_holds(after)} instead of {size(request_bytes(before))} ({gained} requests in the same bytes){how}"


def _holds(plan: Plan) -> str:
    if plan.kv_cache_size_tokens:
        return f"{number(plan.kv_cache_size_tokens)} tokens"
    return f"one request takes {size(request_bytes(plan))}"


def _how(found: Advice) -> str:
    groups = plural(len(found.after.groups), "group")
    if found.aim == PACKING:
        return f", packed into {groups} instead of {number(len(found.before.groups))}"
    return f", {groups} ({found.grouping})"
