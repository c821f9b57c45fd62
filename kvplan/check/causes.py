"""What changed between two cases, and which share of a loss each change has: by planning the old case with it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from kvplan.check.case import Case
from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.sources import Source

MAX_CHANGES = 40


class Change(NamedTuple):
    """One difference between two cases."""

    what: str
    """A flag, a config's field, a GPU ...: how the user finds it."""
    before: Any
    after: Any
    apply: Callable[[Case], Case]
    """A case with this change made."""


class Cause(NamedTuple):
    """A change with the share of tokens that it alone costs (0.2: 20 % fewer; negative: more); None: it does not
    start with it, or the shares were not asked for."""

    what: str
    before: Any
    after: Any
    share: float | None


def changes(old: Case, new: Case) -> list[Change]:
    """Every difference, the model's first."""
    found = [*_models(old, new), *_options(old.args, new.args), *_surroundings(old, new)]
    return found[:MAX_CHANGES]


def _models(old: Case, new: Case) -> Iterator[Change]:
    if old.target.id != new.target.id:
        yield Change(
            "model",
            old.target.id,
            new.target.id,
            lambda case: case._replace(target=new.target, args=case.args._replace(model=new.args.model)),
        )
    else:
        yield from _fields("target", old.target, new.target)
        yield from _files("target", old.target, new.target)
    before, after = old.drafter, new.drafter
    if before is None or after is None or before.id != after.id:
        if before is not after:
            yield Change("drafter", _id(before), _id(after), lambda case: _with_drafter(case, new))
    else:
        yield from _fields("drafter", before, after)
        yield from _files("drafter", before, after)


def _id(source: Source | None) -> str | None:
    return None if source is None else source.id


def _with_drafter(case: Case, new: Case) -> Case:
    """The case with the other's drafter: model and method change together, or vLLM would not take them."""
    options = dict(case.args.speculative_config or {})
    theirs = new.args.speculative_config or {}
    for key in ("model", "method"):
        options.pop(key, None)
        if key in theirs:
            options[key] = theirs[key]
    if "num_speculative_tokens" in theirs:
        options.setdefault("num_speculative_tokens", theirs["num_speculative_tokens"])
    return case._replace(
        drafter=new.drafter,
        args=case.args._replace(speculative_config=options if new.args.speculative_config else None),
    )


def _fields(side: str, old: Source, new: Source) -> Iterator[Change]:
    """The fields of a config that changed."""
    for path in _different(old.config, new.config):
        yield Change(
            f"{new.id} config.json: {'.'.join(path)}",
            _get(old.config, path),
            _get(new.config, path),
            lambda case, path=path: case._replace(**{side: _edited(getattr(case, side), path, new.config)}),  # type: ignore[misc]
        )


def _files(side: str, old: Source, new: Source) -> Iterator[Change]:
    """The files beside a config that changed, came or went."""
    for name in sorted({*old.beside, *new.beside}):
        before, after = old.beside.get(name), new.beside.get(name)
        if before != after:
            yield Change(
                f"{new.id} {name}",
                before,
                after,
                lambda case, name=name, after=after: case._replace(
                    **{side: _with_file(getattr(case, side), name, after)}
                ),  # type: ignore[misc]
            )


def _with_file(source: Source, name: str, content: Any) -> Source:
    files = {key: value for key, value in {**source.beside, name: content}.items() if value is not None}
    return Source(source.id, source.source, source.config, source.where, read_file=files.get, names=lambda: files)


def _different(old: Mapping[str, Any], new: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _different(before, after, (*at, key))
        elif before != after or (key in old) != (key in new):
            yield (*at, key)


def _get(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = config
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _edited(source: Source, path: tuple[str, ...], new: Mapping[str, Any]) -> Source:
    config, files = _put(source.config, path, new), source.beside
    return Source(source.id, source.source, config, source.where, read_file=files.get, names=lambda: files)


def _put(config: Mapping[str, Any], path: tuple[str, ...], new: Mapping[str, Any]) -> dict[str, Any]:
    key, rest = path[0], path[1:]
    out = dict(config)
    if rest:
        out[key] = _put(config.get(key) or {}, rest, new.get(key) or {})
    elif key in new:
        out[key] = new[key]
    else:
        out.pop(key, None)
    return out


_NOT_FLAGS = frozenset({"model", "env", "speculative_config", "additional_flags"})


def _options(old: EngineArgs, new: EngineArgs) -> Iterator[Change]:
    for name in EngineArgs._fields:
        before, after = getattr(old, name), getattr(new, name)
        if name not in _NOT_FLAGS and before != after:
            yield Change(_flag(name), before, after, lambda case, name=name, after=after: _set(case, name, after))  # type: ignore[misc]
    for name, label in (("speculative_config", "--speculative-config "), ("additional_flags", "--"), ("env", "")):
        before, after = getattr(old, name) or {}, getattr(new, name) or {}
        if name == _SPECULATIVE and bool(before) != bool(after) and "model" not in {**before, **after}:
            # Method and length come and go together: vLLM takes neither alone.
            yield Change(label.strip(), before or None, after or None, partial(_set, name=name, value=after or None))
            continue
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key) and (name, key) not in _WITH_DRAFTER:
                shown = label + (key if name != "additional_flags" else key.replace("_", "-"))
                yield Change(
                    shown,
                    before.get(key),
                    after.get(key),
                    lambda case, name=name, key=key, after=after: _set_key(case, name, key, after),  # type: ignore[misc]
                )


_SPECULATIVE = "speculative_config"
_WITH_DRAFTER = {("speculative_config", "model")}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _set(case: Case, name: str, value: Any) -> Case:
    return case._replace(args=case.args._replace(**{name: value}))


def _set_key(case: Case, name: str, key: str, after: Mapping[str, Any]) -> Case:
    own = dict(getattr(case.args, name) or {})
    own.pop(key, None)
    if key in after:
        own[key] = after[key]
    return _set(case, name, own or ({} if name != "speculative_config" else None))


_SURROUNDINGS = (
    ("gpu", "gpu"),
    ("kv_cache_memory", "memory"),
    ("non_kv_memory", "non_kv_memory"),
    ("engine", "engine"),
)


def _surroundings(old: Case, new: Case) -> Iterator[Change]:
    for what, name in _SURROUNDINGS:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield Change(what, before, after, lambda case, name=name, after=after: case._replace(**{name: after}))  # type: ignore[misc]


def causes(old: Case, new: Case, base: int, tokens: Callable[[Case], int | None]) -> list[Cause]:
    """The changes with their shares of ``base`` tokens, the most costly first.

    ``tokens``: tokens of a case, None where it does not start; it may raise KvplanError.
    """
    found = []
    for change in changes(old, new):
        try:
            alone = tokens(change.apply(old))
        except KvplanError:
            alone = None
        share = None if alone is None or not base else 1 - alone / base
        found.append(Cause(change.what, change.before, change.after, share))
    return sorted(found, key=lambda cause: -(1.0 if cause.share is None else cause.share))
