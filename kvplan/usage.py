"""Wrong usage of the command line in one sentence: what is wrong, and what to write instead.

Loaded only where something is wrong. The words are kvplan's; what is wrong is found by click, or by the reader of
vLLM's flags, which does not know the options that kvplan has of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

import click

from kvplan.errors import KvplanError

_CLOSE = 0.6
UNKNOWN = " is unknown to vLLM "
"""What the reader of vLLM's flags says of a flag that vLLM does not have."""
_MEANT = "; did you mean "


def told(error: click.ClickException, words: Sequence[str]) -> KvplanError:
    """What click found wrong with the words, as kvplan says it."""
    context: Any = getattr(error, "ctx", None)
    command = _command(context, words)
    more = f"`{command} --help` says what it takes."
    if isinstance(error, click.MissingParameter) and error.param is not None:
        name = error.param.make_metavar(error.ctx) if error.ctx is not None else error.param.name
        what = (getattr(error.param, "help", None) or "").rstrip(".").replace("  [required]", "")
        return KvplanError(f"{command} needs {name}{f' ({_lower(what)})' if what else ''}; {more}")
    if isinstance(error, click.NoSuchOption):
        close = nearest(error.option_name, _flags(error.ctx))
        return KvplanError(f"{error.option_name} is not an option of {command}{_instead(close, more)}")
    named = getattr(error, "command_name", None)
    if named is not None:
        every = context.command.list_commands(context) if context is not None else ()
        return KvplanError(f"{named} is not a command of kvplan{_instead(nearest(named, every), more)}")
    if isinstance(error, click.BadOptionUsage):
        wrong = "needs a value" if "requires" in error.message else "takes no value"
        return KvplanError(f"{error.option_name} {wrong}; {more}")
    return KvplanError(f"{command}: {_lower(error.format_message()).rstrip('.')}; {more}")


def with_own_options(
    error: KvplanError, words: Sequence[str], own_options: Callable[[str], Iterable[str]]
) -> KvplanError:
    """The error; where it is of a flag that vLLM does not have, with the command's own option that it is like."""
    text = str(error)
    flag, unknown, rest = text.partition(UNKNOWN)
    flag = flag.partition(" ")[0].partition("=")[0]
    if not unknown or not flag.startswith("-") or not words:
        return error
    close = nearest(flag, own_options(words[0]))
    other = rest.partition(_MEANT)[2].rstrip("?")
    if close is None or (other and _likeness(flag, other) > _likeness(flag, close)):
        return error
    return KvplanError(f"{text.partition(';')[0]}, nor an option of kvplan {words[0]}{_MEANT}{close}?")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``; None where none is near."""
    best = max(known, key=lambda each: _likeness(name, each), default=None)
    return best if best is not None and _likeness(name, best) >= _CLOSE else None


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one.strip("-"), other.strip("-")).ratio()


def _instead(close: str | None, more: str) -> str:
    return f"; {more}" if close is None else f"{_MEANT}{close}?"


def _command(context: click.Context | None, words: Sequence[str]) -> str:
    """``kvplan check``; ``kvplan`` where no command was found."""
    if context is not None:
        return str(context.command_path)
    return f"kvplan {words[0]}" if words and not words[0].startswith("-") else "kvplan"


def _flags(context: click.Context | None) -> list[str]:
    if context is None:
        return []
    return [flag for param in context.command.get_params(context) for flag in param.opts if flag.startswith("--")]


def _lower(text: str) -> str:
    """The text as the part of a sentence."""
    return text[:1].lower() + text[1:]
