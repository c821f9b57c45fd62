"""The deployments that a file describes: vLLM's options under vLLM's names, a GPU, a budget and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from kvplan.check.nodes import Node
from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.gpus import find
from kvplan.layout import LAYOUTS
from kvplan.request import engine_args, read_words, with_drafter
from kvplan.selection import ENGINES, RELEASED
from kvplan.units import human_readable_bytes

MAX_DEPLOYMENTS = 5000
TOLERANCE = 0.01

_TOP = ("defaults", "deployments")
OWN_KEYS = (
    "name",
    "serve",
    "model",
    "gpu",
    "engine",
    "kv_cache_memory",
    "non_kv_memory",
    "limits",
    "capacity_loss",
    "drafter",
    "method",
    "num_speculative_tokens",
    "kv_cache_layout",
    "env",
)
NOT_DEFAULTS = frozenset({"name", "serve", "model"})
LIMITS = (
    "min_tokens",
    "min_concurrency",
    "max_growing_padding_fraction",
    "max_groups",
    "must_start",
    "min_prefix_hit_tokens",
    "layout",
)


class Limit(NamedTuple):
    """One limit of a deployment."""

    name: str
    value: Any
    line: int
    length: int | None = None
    """min_concurrency: tokens of each request; None: max_model_len."""


class Deployment(NamedTuple):
    """One deployment of the file, its words read."""

    name: str
    line: int
    args: EngineArgs | None
    """None where the deployment cannot be read; ``error`` says why."""
    error: str | None
    gpu: str | None
    engine: str
    memory: tuple[int, ...] | None
    """KV budget in bytes per pipeline stage and rank; None: it comes from the GPU, or a flag gives it."""
    limits: tuple[Limit, ...]
    tolerance: float
    """Loss of tokens, as a fraction, that is not a failure."""
    non_kv_memory: int | None = None
    """What a start-up takes of a rank besides weights and KV cache, in bytes: then the GPU gives the budget."""
    own_drafter: bool = False
    """Whether kvplan's own key names the drafter: then a DFlash drafter's trained length stands in for none."""
    other_release: str | None = None
    """As `kvplan.serve.Deployment.other_release`."""


def read_fleet(root: Node, name: str) -> list[Deployment]:
    """The deployments in the file's order. KvplanError, with the line, for a file that is not understood."""
    top = _mapping(root, name, "the file")
    _known(top, _TOP, name)
    defaults = _mapping(top["defaults"], name, "defaults") if "defaults" in top else {}
    for key in NOT_DEFAULTS & set(defaults):
        raise _error(name, defaults[key].line, f"defaults cannot give {key}; give it to each deployment")
    _over({}, defaults, name)
    listed = top.get("deployments")
    if listed is None or not isinstance(listed.value, list) or not listed.value:
        raise _error(name, root.line, "deployments must be a list with at least one deployment")
    if len(listed.value) > MAX_DEPLOYMENTS:
        raise _error(name, listed.line, f"more than {MAX_DEPLOYMENTS} deployments; split the file")
    found = [_deployment(node, defaults, name) for node in listed.value]
    seen: dict[str, int] = {}
    for deployment in found:
        if deployment.name in seen:
            first = seen[deployment.name]
            raise _error(name, deployment.line, f"name {deployment.name} is that of line {first} too; rename one")
        seen[deployment.name] = deployment.line
    return found


def _deployment(node: Node, defaults: Mapping[str, Node], file: str) -> Deployment:
    own = _mapping(node, file, "a deployment")
    _known({**defaults, **own}, (*OWN_KEYS, *_option_names()), file)
    given = _over(defaults, own, file)
    if "limits" in given:
        given["limits"] = _both_limits(defaults, own, file)
    line = node.line
    name = _text(given, "name", file, line)
    if name is None or not name or len(name) > 200:
        raise _error(file, line, "a deployment needs a name")
    if ("serve" in given) == ("model" in given):
        raise _error(file, line, f"deployment {name} needs either serve (a line) or model")
    engine = _text(given, "engine", file, line) or RELEASED
    if engine not in ENGINES:
        raise _error(file, given["engine"].line, f"engine {engine} is not known; choose one of {', '.join(ENGINES)}")
    memory, rest = _memory(given, file), _rest(given, file)
    limits = _limits(given, file)
    tolerance = _tolerance(given["capacity_loss"], file) if "capacity_loss" in given else TOLERANCE
    gpu = _text(given, "gpu", file, line)
    try:
        if gpu is not None:
            find(gpu, f"{file}, line {given['gpu'].line}: gpu")
        (args, release), error = _args(given, file, line), None
    except KvplanError as refusal:
        args, release, error = None, None, _placed(str(refusal), given, file, line)
    own_drafter = "drafter" in given
    return Deployment(name, line, args, error, gpu, engine, memory, limits, tolerance, rest, own_drafter, release)


def _over(defaults: Mapping[str, Node], own: Mapping[str, Node], file: str) -> dict[str, Node]:
    """The own keys over the defaults; null takes a default away."""
    found = {**defaults, **own}
    for key, node in own.items():
        if node.value is None:
            if key not in defaults:
                raise _error(file, node.line, f"{key} is null and no default gives it; give a value or leave it out")
            del found[key]
    return found


def _both_limits(defaults: Mapping[str, Node], own: Mapping[str, Node], file: str) -> Node:
    """The limits of the defaults and of a deployment, merged."""
    merged: dict[str, Node] = {}
    line = 0
    for keys in (defaults, own):
        if "limits" in keys:
            limits, line = _mapping(keys["limits"], file, "limits"), keys["limits"].line
            _known(limits, LIMITS, file)
            merged = _over(merged, limits, file)
    return Node(merged, line)


def _placed(error: str, given: Mapping[str, Node], file: str, line: int) -> str:
    """The error with the line of the key that it is about: of the option that it names, else of what was read."""
    if error.startswith(f"{file}, line "):
        return error
    named = (node for key, node in given.items() if f"--{key.replace('_', '-')} " in error)
    node = given["serve"] if "serve" in given else next(named, given["model"])
    return f"{file}, line {node.line or line}: {error}"


def _args(given: Mapping[str, Node], file: str, line: int) -> tuple[EngineArgs, str | None]:
    """The options, and the release of an image that is another."""
    env, release = _env(given, file), None
    if "serve" in given:
        args, release = _served(_text(given, "serve", file, line) or "", env, file, given["serve"].line)
        options = {key: node for key, node in given.items() if key not in OWN_KEYS}
        if options:
            extra = next(iter(options))
            raise _error(file, options[extra].line, f"{extra} stands beside serve; write it into the line")
    else:
        words = [_text(given, "model", file, line) or ""]
        for key, node in given.items():
            if key not in OWN_KEYS:
                words += _flag(key, node, file)
        args = read_words(words, env)
    count = given.get("num_speculative_tokens")
    if count is not None and (type(count.value) is not int or count.value < 1):
        raise _error(file, count.line, f"num_speculative_tokens {count.value!r} must be a positive whole number")
    drafter, method = _text(given, "drafter", file, line), _text(given, "method", file, line)
    return with_drafter(args, drafter, method, None if count is None else count.value), release


def _served(text: str, env: Mapping[str, str], file: str, line: int) -> tuple[EngineArgs, str | None]:
    from kvplan.serve import planner_options, read_text

    deployments = read_text(text, f"{file}, line {line}", None, env)
    if len(deployments) != 1:
        raise _error(file, line, f"serve starts {len(deployments)} servers; give one to each deployment")
    found = deployments[0]
    args = engine_args(found.model or "", planner_options(found), {**env, **found.env})
    return args, found.other_release


def _flag(key: str, node: Node, file: str) -> list[str]:
    """An option as words of a command line."""
    flag, value = "--" + key.replace("_", "-"), node.plain()
    if value is True:
        return [flag]
    if value is False:
        return ["--no-" + flag[2:]]
    if isinstance(value, dict):
        from json import dumps

        return [flag, dumps(value)]
    if isinstance(value, list):
        return [flag, *(str(each) for each in value)]
    return [f"{flag}={value}"]


def _env(given: Mapping[str, Node], file: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if "env" in given:
        for key, node in _mapping(given["env"], file, "env").items():
            if isinstance(node.value, (dict, list)) or node.value is None:
                raise _error(file, node.line, f"env {key} must be text")
            found[key] = str(node.value)
    layout = _text(given, "kv_cache_layout", file, 0)
    return found if layout is None else {**found, "VLLM_KV_CACHE_LAYOUT": layout}


def _memory(given: Mapping[str, Node], file: str) -> tuple[int, ...] | None:
    node = given.get("kv_cache_memory")
    if node is None:
        return None
    items = node.value if isinstance(node.value, list) else [node]
    if not items:
        raise _error(file, node.line, "kv_cache_memory lists no size; give one for each pipeline stage, or one for all")
    return tuple(_size(item, file, "kv_cache_memory") for item in items)


def _rest(given: Mapping[str, Node], file: str) -> int | None:
    node = given.get("non_kv_memory")
    if node is None:
        return None
    if "kv_cache_memory" in given:
        raise _error(file, node.line, "kv_cache_memory and non_kv_memory both say what the KV cache gets; keep one")
    return _size(node, file, "non_kv_memory")


def _size(node: Node, file: str, key: str) -> int:
    """A number of bytes."""
    try:
        size = human_readable_bytes(str(node.plain()), key)
    except KvplanError as error:
        raise KvplanError(f"{file}, line {node.line}: {error}") from None
    if size < 0:
        raise _error(file, node.line, f"{key} {node.value} must not be negative")
    if size >= 2**63:
        raise _error(file, node.line, f"{key} {str(node.value)[:40]} is more than any memory holds")
    return size


def _limits(given: Mapping[str, Node], file: str) -> tuple[Limit, ...]:
    if "limits" not in given:
        return ()
    return tuple(_limit(key, node, file) for key, node in given["limits"].value.items())


def _limit(key: str, node: Node, file: str) -> Limit:
    value, length = node.value, None
    if key == "min_concurrency" and isinstance(value, dict):
        _known(value, ("requests", "length"), file)
        length = value["length"].value if "length" in value else None
        value = value["requests"].value if "requests" in value else None
        if length is not None and (type(length) is not int or length < 1):
            raise _error(file, node.line, f"min_concurrency: length {length!r} must be a positive number of tokens")
    if key == "layout":
        fits = isinstance(value, str) and value in LAYOUTS
    elif key == "must_start":
        fits = isinstance(value, bool)
    elif key == "max_growing_padding_fraction":
        return Limit(key, _fraction(node, file, key), node.line)
    else:
        fits = type(value) in (int, float) and 0 <= value < 2**63
    if not fits:
        what = {"layout": f"one of {', '.join(LAYOUTS)}", "must_start": "true or false"}.get(key, "a number")
        raise _error(file, node.line, _is_text(key, value) or f"{key} {value!r} must be {what}")
    return Limit(key, value, node.line, length)


def _tolerance(node: Node, file: str) -> float:
    """A share that can be exceeded: no pool loses more than all of it."""
    share = _fraction(node, file, "capacity_loss")
    if share >= 1:
        raise _error(file, node.line, f"capacity_loss {node.value} never fails; give a share below 100%, such as 5%")
    return share


def _fraction(node: Node, file: str, key: str) -> float:
    """``1%`` or 0.01. A number of 1 and above must say by its % what it means."""
    value = node.value
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            value = float(value.strip()[:-1]) / 100
        except ValueError:
            value = node.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1000:
        what = _is_text(key, value) or f"{key} {node.plain()!r} must be a share such as 1% or 0.01"
        raise _error(file, node.line, what)
    if value is node.value and value >= 1:
        raise _error(
            file, node.line, f"{key} {value:g} reads as {value:.0%}; write {value:g}% or, if that is meant, {value:.0%}"
        )
    return float(value)


def _is_text(key: str, value: Any) -> str | None:
    """For numbers that YAML does not take for one: 1e5, which needs a point and a sign."""
    if key in _WORDS or not isinstance(value, str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    plain = f"{number:.12f}".rstrip("0").rstrip(".")
    return f"{key} {value!r} is text in YAML; write {plain}" if 0 <= number < 2**63 else None


_WORDS = frozenset({"layout", "must_start"})


def _mapping(node: Node, file: str, what: str) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        raise _error(file, node.line, f"{what} must be a mapping of keys to values")
    return node.value


def _text(given: Mapping[str, Node], key: str, file: str, line: int) -> str | None:
    node = given.get(key)
    if node is None:
        return None
    if not isinstance(node.value, str):
        raise _error(file, node.line, f"{key} {node.plain()!r} must be text")
    return node.value


def _known(given: Mapping[str, Node], names: Iterable[str], file: str) -> None:
    known = set(names)
    for key, node in given.items():
        if key not in known:
            from difflib import get_close_matches

            close = get_close_matches(key, sorted(known), 1, 0.6)
            hint = f"did you mean {close[0]}?" if close else "leave it out."
            raise KvplanError(f"{file}, line {node.line}: unknown key {key[:60]}; {hint}")


@cache
def _option_names() -> tuple[str, ...]:
    from kvplan.serve.flagtable import option_strings

    flags = [text[2:] for text in option_strings() if text.startswith("--")] + ["min-kv-cache-group-layers"]
    return tuple(dict.fromkeys([*(flag.replace("-", "_") for flag in flags), *flags]))


def _error(file: str, line: int, what: str) -> KvplanError:
    return KvplanError(f"{file}, line {line}: {what}.")
