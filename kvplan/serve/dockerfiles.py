"""Dockerfiles: the entrypoint, its arguments and the environment of the last stage.

Source of the rules: the Dockerfile reference (ENTRYPOINT and CMD as a list or as text, ENV, line continuations).
"""

import json
import re
from collections.abc import Iterator

from kvplan.serve.launch import launches, of_image, of_words, within
from kvplan.serve.scope import Scope
from kvplan.serve.start import Launch
from kvplan.serve.words import SH, Words

STARTS = re.compile(r"(?im)^[ \t]*(ENTRYPOINT|CMD)[ \t]+\S")


def is_dockerfile(text: str) -> bool:
    """Whether a text builds an image that starts something."""
    return bool(re.search(r"(?im)^[ \t]*FROM[ \t]+\S", text) and STARTS.search(text))


def of_dockerfile(text: str) -> Iterator[Launch]:
    """The start of the image's last stage."""
    scope, image, started = Scope(), "", {"ENTRYPOINT": "", "CMD": ""}
    for name, rest in instructions(text):
        if name == "FROM":
            scope, image = Scope(), re.sub(r"(?i)\s+as\s+\S+$", "", rest).split()[-1]
            started = {"ENTRYPOINT": "", "CMD": ""}
        elif name in ("ENV", "ARG"):
            assign(scope, rest, exports=name == "ENV")
        elif name in started:
            started[name] = rest
    yield from of_start(started["ENTRYPOINT"], started["CMD"], image, scope.environment())


def of_start(entrypoint: str, command: str, image: str, env: dict[str, str]) -> Iterator[Launch]:
    """The start of an entrypoint and a command: a list is words, text is a shell's line."""
    return within(image, _of_start(entrypoint, command, image, env))


def _of_start(entrypoint: str, command: str, image: str, env: dict[str, str]) -> Iterator[Launch]:
    first, second = listed(entrypoint), listed(command)
    if entrypoint and first is None:
        yield from launches(entrypoint, env, 1)
    elif entrypoint:
        yield from of_words([*(first or []), *(second or [])], env)
    elif second is None:
        yield from launches(command, env, 1)
    else:
        yield from of_image(image, None, second, env)


def listed(text: str) -> list[str] | None:
    """The words of an instruction that is a JSON list; None for text."""
    try:
        words = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def assign(scope: Scope, rest: str, exports: bool) -> None:
    """ENV NAME=value ... or ENV NAME value."""
    words = Words(rest, scope, SH._replace(operators="")).all()
    pairs = [word.partition("=") for word in words]
    if words and "=" not in words[0]:
        pairs = [(words[0], "=", " ".join(words[1:]))]
    for name, equals, value in pairs:
        if name.isidentifier() and equals:
            scope.set(name, value)
            if exports:
                scope.exported.add(name)


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(name, rest) of every instruction, continued lines joined and comments between them left out."""
    kept = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\[ \t]*\n", " ", kept)
    for line in joined.split("\n"):
        found = re.match(r"\s*([A-Za-z]+)\s+(.*\S)", line)
        if found:
            yield found.group(1).upper(), found.group(2)
