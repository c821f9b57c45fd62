"""systemd units, Podman's container units and supervisord's programs: the command and its environment.

Source of the rules: systemd.service(5), systemd.exec(5), podman-systemd.unit(5); supervisord's manual, "[program:x]".
"""

import re
from collections.abc import Iterator, Mapping

from kvplan.serve.launch import of_command, of_image
from kvplan.serve.marks import mark
from kvplan.serve.scope import Scope
from kvplan.serve.script import Command
from kvplan.serve.start import Launch
from kvplan.serve.words import PLAIN, SYSTEMD, Words


def is_unit(text: str) -> bool:
    """Whether a text is a unit that starts something."""
    return bool(re.search(r"(?m)^\[(Service|Container)\]\s*$", text) and re.search(r"(?m)^\s*Exec(Start)?\s*=", text))


def of_unit(text: str) -> Iterator[Launch]:
    """Every start in a unit."""
    entries = list(unit_entries(text))
    env: dict[str, str] = {}
    for key, value in entries:
        if key == "Environment":
            for word in Words(specifiers(value), Scope(), SYSTEMD).all():
                name, equals, text_value = word.partition("=")
                if equals:
                    env[name] = text_value
    image = next((value for key, value in entries if key == "Image"), "")
    for key, value in entries:
        if key == "ExecStart":
            words = Words(specifiers(value.lstrip("-@:+!")), Scope(env), SYSTEMD).all()
            yield from of_command(Command(words, env, []))
        elif key == "Exec" and image:
            yield from of_image(image, None, Words(specifiers(value), Scope(env), SYSTEMD).all(), env)


def is_supervised(text: str) -> bool:
    """Whether a text configures programs of supervisord."""
    return bool(re.search(r"(?m)^\[program:[^\]\n]+\]\s*$", text))


def of_supervised(text: str) -> Iterator[Launch]:
    """The start of each program that is one."""
    programs = re.split(r"(?m)^\[", text.replace("\n\t", "\n ").replace("\n ", " "))
    for program in programs:
        entries = dict(unit_entries(program))
        if program.startswith("program:") and "command" in entries:
            pairs = re.findall(r"""([A-Za-z_]\w*)=("[^"]*"|'[^']*'|[^,\s]*)""", entries.get("environment", ""))
            env = {name: value.strip("\"'") for name, value in pairs}
            words = Words(supervised(entries["command"], env), Scope(), PLAIN).all()
            yield from of_command(Command(words, env, []))


def supervised(text: str, env: Mapping[str, str]) -> str:
    """%% as a percent sign, %(ENV_X)s from the program's environment; other references have no value here."""

    def one(found: re.Match[str]) -> str:
        name = found.group(1) or ""
        return "%" if not name else env.get(name.removeprefix("ENV_"), mark(found.group()))

    return re.sub(r"%%|%\((\w+)\)\w", one, text)


def unit_entries(text: str) -> Iterator[tuple[str, str]]:
    """(key, value) of every line, continued lines joined and comments between them left out."""
    joined = ""
    for line in text.split("\n"):
        if line.lstrip()[:1] in ("#", ";"):
            continue
        if line.rstrip().endswith("\\"):
            joined += line.rstrip()[:-1] + " "
            continue
        key, equals, value = (joined + line).partition("=")
        joined = ""
        if equals:
            yield key.strip(), value.strip()
    key, equals, value = joined.partition("=")
    if equals:
        yield key.strip(), value.strip()


def specifiers(text: str) -> str:
    """%% as a percent sign; other specifiers, such as %i, have no value here."""
    return re.sub(r"%([%A-Za-z])", lambda found: "%" if found.group(1) == "%" else mark(found.group()), text)
