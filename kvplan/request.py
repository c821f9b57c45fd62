"""From words of a command line to a plan request. vLLM's flags are read by the reader of `vllm serve` lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvplan.engine.args import EngineArgs
from kvplan.errors import KvplanError
from kvplan.units import human_readable_bytes

if TYPE_CHECKING:
    from kvplan.serve import Deployment

_BUDGET = "--kv-cache-memory-bytes"
_SEQUENCES = frozenset({"kv_cache_dtype_skip_layers"})
_NULL_MEANS_DEFAULT = frozenset(EngineArgs._field_defaults)
_COMMANDS = frozenset(
    (
        "vllm",
        "docker",
        "podman",
        "nerdctl",
        "python",
        "python3",
        "env",
        "exec",
        "sudo",
        "nohup",
        "time",
        "sh",
        "bash",
        "uv",
    )
)
OWN_FLAG = "--min-kv-cache-group-layers"
"""The flag of vLLM pull request 58207, which 0.33.0's parser does not know."""


def engine_args(model: str, options: Mapping[str, Any], env: Mapping[str, str]) -> EngineArgs:
    """vLLM's options, under vLLM's names and with the values of its parser, as EngineArgs.

    Options that EngineArgs has no field for are kept in ``additional_flags``; null counts as not given.
    """
    fields: dict[str, Any] = {}
    further: dict[str, Any] = {}
    for name, value in options.items():
        if name in EngineArgs._fields:
            if value is not None:
                fields[name] = tuple(value) if name in _SEQUENCES else value
        else:
            further[name] = value
    fields.pop("model", None)
    return EngineArgs(model=model, additional_flags=further, env=dict(env), **fields)


def serve_words(words: Sequence[str]) -> tuple[list[str], int | None]:
    """The words with kvplan's own spellings turned into vLLM's: a budget like 207GiB as bytes.

    A line that starts a server is left as it is but for the second value, --min-kv-cache-group-layers, which is taken
    out: vLLM would read the line, and takes no 207GiB.
    """
    out: list[str] = []
    minimum = None
    own = own_words(words)
    rest = iter(enumerate(words))
    for at, word in rest:
        name, equals, value = word.partition("=")
        spelled = name.replace("_", "-")
        if spelled != OWN_FLAG and (spelled != _BUDGET or at >= own):
            out.append(word)
            continue
        if not equals:
            value = next(rest, (at, ""))[1]
        if spelled == OWN_FLAG:
            minimum = _minimum(value)
        else:
            out += [_BUDGET, value if value in ("", "None") else str(human_readable_bytes(value, _BUDGET))]
    return out, minimum


def stage_budgets(words: Sequence[str]) -> tuple[list[str], tuple[int, ...] | None]:
    """The words without a --kv-cache-memory-bytes that lists a size per pipeline stage (20GiB,24GiB), and its bytes.

    vLLM takes one size for all ranks; a list is kvplan's own. The words unchanged and None where none is given.
    """
    out: list[str] = []
    sizes: tuple[int, ...] | None = None
    own = own_words(words)
    rest = iter(words[:own])
    for word in rest:
        name, equals, value = word.partition("=")
        if name.replace("_", "-") != _BUDGET:
            out.append(word)
            continue
        given = value if equals else next(rest, "")
        if "," in given:
            sizes = tuple(human_readable_bytes(part.strip(), _BUDGET) for part in given.split(","))
        else:
            out += [word] if equals else [word, given]
    return [*out, *words[own:]], sizes


def own_words(words: Sequence[str]) -> int:
    """How many words are typed to kvplan; the rest is a line that starts a server, which vLLM itself would read."""
    if words and starts_a_server(words[0]):
        return 0
    at = words.index("--") + 1 if "--" in words else len(words)
    return at if at < len(words) and starts_a_server(words[at]) else len(words)


def line_of(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(flags of `vllm serve` before the line, the line): ``--`` parts them, and without it there is only the line.

    A ``--`` inside a line that starts a server is the line's own.
    """
    words = list(words)
    if "--" not in words or starts_a_server(words[0]):
        return [], words
    at = words.index("--")
    before, line = words[:at], words[at + 1 :]
    return (before, line) if line and starts_a_server(line[0]) else ([], before + line)


def _minimum(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise KvplanError(f"{OWN_FLAG} {text!r} must be a positive number of layers.")
    return int(text)


def read_deployment(words: Sequence[str], env: Mapping[str, str]) -> tuple[Deployment, int | None]:
    """MODEL and flags of `vllm serve`, or a whole command that starts vLLM, as read; and OWN_FLAG.

    KvplanError where no server is started, or several are.
    """
    from kvplan.serve import read_arguments, read_argv

    words, minimum = serve_words(words)
    further, own = line_of(words)
    if not own:
        raise KvplanError("no model is named; give a path, a bundled id or a hub id, such as Qwen/Qwen3-8B.")
    if not starts_a_server(own[0]):
        return read_arguments(own, env), minimum
    deployments = read_argv(own, env)
    if len(deployments) != 1:
        raise KvplanError(f"the line starts {len(deployments)} servers; plan one at a time.")
    return (_with_flags(deployments[0], further) if further else deployments[0]), minimum


def _with_flags(deployment: Deployment, flags: Sequence[str]) -> Deployment:
    """The deployment of a line with the flags before ``--``, which count as if they stood at the line's end."""
    from kvplan.serve import read_arguments

    if not flags[0].startswith("-"):
        raise KvplanError(f"{flags[0][:80]} stands before -- and a whole line after it; name a model in the line only.")
    more = read_arguments([deployment.model or "", *flags])
    return deployment._replace(
        options={**deployment.options, **more.options},
        ignored=(*deployment.ignored, *more.ignored),
        errors=(*deployment.errors, *more.errors),
    )


def read_words(words: Sequence[str], env: Mapping[str, str]) -> EngineArgs:
    """As `read_deployment`, as EngineArgs.

    KvplanError with the parser's first sentence where vLLM would refuse the words, and Refused where kvplan cannot
    judge a flag.
    """
    return args_of(*read_deployment(words, env), env)


def args_of(deployment: Deployment, minimum: int | None, env: Mapping[str, str]) -> EngineArgs:
    """A deployment that was read, as EngineArgs; ``minimum``: OWN_FLAG. Raises as `read_words`."""
    from kvplan.serve import planner_options

    options = planner_options(deployment)
    args = engine_args(deployment.model or "", options, {**env, **deployment.env})
    return args if minimum is None else args._replace(min_kv_cache_group_layers=minimum)


def starts_a_server(word: str) -> bool:
    """Whether the word begins a command, where a model or a flag would begin plain flags of `vllm serve`."""
    name, equals, _ = word.partition("=")
    return word.rpartition("/")[2] in _COMMANDS or (bool(equals) and name.isidentifier())


def with_drafter(
    args: EngineArgs, drafter: str | None, method: str | None, num_speculative_tokens: int | None
) -> EngineArgs:
    """--drafter, --method and --num-speculative-tokens as keys of --speculative-config.

    Refused where a key is given both ways.
    """
    given = {"model": drafter, "method": method, "num_speculative_tokens": num_speculative_tokens}
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return args
    config = dict(args.speculative_config or {})
    flags = {"model": "--drafter", "method": "--method", "num_speculative_tokens": "--num-speculative-tokens"}
    for key in given:
        if key in config:
            raise KvplanError(f"{flags[key]} and {key} of --speculative-config say the same thing; keep one of them.")
    return args._replace(speculative_config={**config, **given})
