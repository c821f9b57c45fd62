"""From one start of the server to a Deployment: options with vLLM's values, what was ignored, and every fault."""

import re
from pathlib import Path
from typing import NamedTuple

from kvplan.files import open_read
from kvplan.serve.argparser import Parsed, parse
from kvplan.serve.flags import VLLM_VERSION
from kvplan.serve.flagtable import default_of
from kvplan.serve.later import later_errors
from kvplan.serve.marks import clean, is_marked, references, unmark
from kvplan.serve.messages import plain
from kvplan.serve.prepare import Notes, ReadFile, prepare
from kvplan.serve.start import Launch
from kvplan.serve.touch import touch_of, touch_of_env
from kvplan.serve.yamlfile import MAX_BYTES


class Deployment(NamedTuple):
    """One server, as it was started.

    A value that a shell variable without a value would have given stays text ("$TP"); see kvplan.serve.planner_options.
    """

    model: str | None
    """As given; vLLM's default when none was; None when the command could not be read."""
    options: dict[str, object]
    """Given options that bear on the engine, under vLLM's names, with the values of vLLM 0.33.0's parser."""
    env: dict[str, str]
    """Environment variables that bear on the KV cache."""
    ignored: tuple[str, ...]
    """Names of flags and VLLM_ variables that do not touch the cache, and variables that expand to nothing."""
    errors: tuple[str, ...]
    """What vLLM refuses or drops, one sentence each."""
    model_is_default: bool = False
    """Whether no model was given, so that vLLM takes its own."""
    other_release: str | None = None
    """The tag of vLLM's image, where it is that of another release than VLLM_VERSION."""


def build(launch: Launch, directory: Path | None) -> Deployment:
    """The deployment of one start. directory: where --config may find its file; None when only heredocs count."""
    notes = Notes(list(launch.errors), [])
    parsed = parse(prepare(launch.args, launch.serve, file_reader(launch, directory), notes), launch.serve)
    errors = [*notes.errors, *pasted(launch.args), *parsed.errors]
    model = model_of(parsed, launch.serve, errors)
    is_default = model is None and not any(error.startswith("no model") for error in errors)
    if is_default:
        model = str(default_of("model"))
    if model is not None and re.match(r"--?[A-Za-z].*\s", model):
        errors.append(f"{plain(model)!r} is one argument of several words: give each word as an argument of its own")
    errors += later_errors(parsed.values)
    options: dict[str, object] = {}
    ignored: list[str] = []
    for dest, value in parsed.values.items():
        if touch_of(dest).kind != "ignored":
            options[dest] = unmark(value)
        elif dest not in ("model", "config"):
            ignored.append(dest)
    ignored += [*notes.dropped, *(str(unmark(text)) for text in parsed.dropped)]
    env, other = split_env(launch.env)
    return Deployment(
        model=None if model is None else str(unmark(model)),
        options=options,
        env=env,
        ignored=tuple(ignored + other),
        errors=tuple(dict.fromkeys(" ".join(str(unmark(error)).split()) for error in errors)),
        model_is_default=is_default,
        other_release=other_release(launch.image),
    )


def other_release(image: str) -> str | None:
    """The tag of an image of vLLM that names another release than that whose parser this is."""
    found = re.search(r"vllm-openai[\w.-]*:(v?(\d+\.\d+\.\d+)[\w.+-]*)(@|$)", str(unmark(image))) if image else None
    return None if found is None or found.group(2) == VLLM_VERSION else found.group(1)


def pasted(args: list[str]) -> list[str]:
    """A word with a no-break space where a blank was meant, as web pages have it."""
    found = [arg for arg in args if re.search("\u00a0-|^\u00a0|\u00a0$", arg)]
    return [
        f"{plain(arg)!r} holds a no-break space, which a shell takes for a letter: write a plain space"
        for arg in found[:1]
    ]


def model_of(parsed: Parsed, serve: bool, errors: list[str]) -> str | None:
    """The model that is given, if any. Under api_server a positional one is read and thrown away."""
    named = parsed.values.get("model")
    if serve:
        model = parsed.model if parsed.model is not None else named
    elif named is None and parsed.model is not None and not parsed.model_after:
        errors.append(
            f"{plain(parsed.model)} is thrown away: the api_server module takes the model with --model only, "
            f"so write --model {plain(parsed.model)}"
        )
        model = parsed.model
    else:
        model = named
    return None if model is None else str(model)


def split_env(given: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """(variables that bear on the cache, names of vLLM's other ones)."""
    env: dict[str, str] = {}
    other: list[str] = []
    for name, value in given.items():
        if touch_of_env(name, value).kind != "ignored":
            env[name] = str(unmark(value))
        elif name.startswith("VLLM_"):
            other.append(name)
    return env, other


def file_reader(launch: Launch, directory: Path | None) -> ReadFile:
    """How --config finds its file: among the heredocs of the script, else below the directory."""

    def read(name: str) -> str:
        for key in (name, "./" + name, name.removeprefix("./")):
            if key in launch.files:
                return launch.files[key]
        if is_marked(name):
            raise OSError(f"--config {name} names {references(name)[0]}, which has no value here: write the name out")
        if directory is None:
            raise OSError(f"--config {plain(name)} is a file of its own: give kvplan the command in a file beside it")
        return read_below(directory, name)

    return read


def read_below(directory: Path, name: str) -> str:
    """A text file in the directory or below; OSError with one sentence otherwise."""
    try:
        base = directory.resolve()
        path = (base / name).resolve()
        if not path.is_relative_to(base):
            raise OSError(f"--config {plain(name)} lies outside {base}: kvplan reads files beside the command only")
        with open_read(path) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if str(error).startswith("--config"):
            raise
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise OSError(f"--config {plain(name)} cannot be read ({reason}): put it beside the command") from None
    return clean(data.decode("utf-8", errors="replace"))
