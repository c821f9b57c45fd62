"""What a caller of the library may get wrong in a plan request: types and names, told in one sentence each.

The command line's parser has settled them already, so only `kvplan.pipeline.plan` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError

_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "a string"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "True or False"),
    "Mapping[str, Any]": (Mapping, "a dict"),
    "Mapping[str, str]": (Mapping, "a dict of strings"),
    "tuple[str, ...]": ((tuple, list), "a tuple of strings"),
}
"""The annotations of EngineArgs: which values they take, and how that is said."""

_STRINGS: dict[str, Callable[[Any], Iterable[Any]]] = {
    "Mapping[str, Any]": iter,
    "Mapping[str, str]": lambda value: chain.from_iterable(value.items()),
    "tuple[str, ...]": iter,
}
"""What inside such a value must be strings."""


@lru_cache(1)
def _fields() -> tuple[tuple[str, str, bool], ...]:
    """Of each option its name, its kind and whether it may be None."""
    out = []
    for name, annotation in EngineArgs.__annotations__.items():
        kind, bar, _ = str(getattr(annotation, "__forward_arg__", annotation)).partition(" | None")
        out.append((name, kind, bool(bar)))
    return tuple(out)


def check_args(args: Any) -> None:
    """KvplanError, naming the option, where a value of EngineArgs is not of its annotated type."""
    if not isinstance(args, EngineArgs):
        raise KvplanError(
            f"PlanRequest: args {_shown(args)} must be an EngineArgs, such as EngineArgs('Qwen/Qwen3-8B')."
        )
    for (name, kind, optional), value in zip(_fields(), args, strict=True):
        if not (value is None and optional) and not _is(kind, value):
            raise KvplanError(f"EngineArgs: {name} {_shown(value)} must be {_taken(kind, optional)}.")
    if args.min_kv_cache_group_layers < 1:
        raise KvplanError(f"EngineArgs: min_kv_cache_group_layers {args.min_kv_cache_group_layers} must be at least 1.")


def check_choice(name: str, value: Any, known: Sequence[str]) -> None:
    """KvplanError where kvplan's own choice is not one that it knows."""
    if value not in known:
        raise KvplanError(f"PlanRequest: {name} {_shown(value)} is not known; choose one of {', '.join(known)}.")


def check_own(gpu: Any, memory: Any, assumed: Any) -> None:
    """KvplanError for a GPU that is no name, budgets that are no tuple of bytes, assumptions that are no texts."""
    if not _is("tuple[str, ...]", assumed):
        raise KvplanError(f"PlanRequest: assumed {_shown(assumed)} must be a tuple of strings.")
    if gpu is not None and not isinstance(gpu, str):
        raise KvplanError(f"PlanRequest: gpu {_shown(gpu)} must be a GPU's name, such as 'H200', or None.")
    if memory is None:
        return
    if not isinstance(memory, tuple | list) or not memory or not all(_is("int", each) and each >= 0 for each in memory):
        raise KvplanError(
            f"PlanRequest: available_memory_bytes {_shown(memory)} must be a tuple of whole numbers, one for each "
            "pipeline stage, or None."
        )


def _is(kind: str, value: Any) -> bool:
    fits = isinstance(value, _KINDS[kind][0]) and not (isinstance(value, bool) and kind != "bool")
    inside = _STRINGS.get(kind)
    return fits and (inside is None or all(isinstance(each, str) for each in inside(value)))


def _taken(kind: str, optional: bool) -> str:
    words = _KINDS[kind][1]
    return f"{words.replace(' or ', ', ')} or None" if optional else words


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
