"""Reading serve lines from words, texts and files; what each is follows from its content."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kvplan.errors import KvplanError
from kvplan.files import open_read
from kvplan.serve.deployment import Deployment, build
from kvplan.serve.marks import clean
from kvplan.serve.start import Launch
from kvplan.serve.yamlfile import MAX_BYTES

YAML_NAMES = (".yaml", ".yml", ".json")
MAX_STARTS = 1000
MAX_ARGUMENTS = 5000
MAX_HEREDOCS = 3
"""Heredocs inside heredocs that are looked into."""
NO_START = "no vLLM server is started here: give a line such as vllm serve MODEL --tensor-parallel-size 2"


def read_arguments(words: list[str], env: Mapping[str, str] | None = None) -> Deployment:
    """The deployment of what follows `vllm serve`: a model and flags."""
    launch = Launch([clean(word) for word in words], True, dict(env or {}), [], {})
    return built(iter([launch]), Path(), "the line")[0]


def read_argv(words: list[str], variables: Mapping[str, str] | None = None) -> list[Deployment]:
    """The deployments of a command that a shell has split already, or that was quoted as one word.

    --config files are read from the working directory. KvplanError when the words start no server.
    """
    if len(words) == 1 and " " in words[0].strip():
        return read_text(words[0], "the line", Path(), variables)
    from kvplan.serve.launch import of_command
    from kvplan.serve.script import Command

    cleaned = [clean(word) for word in words]
    prefix = 0
    env: dict[str, str] = dict(variables or {})
    while prefix < len(cleaned) and re.match(r"[A-Za-z_]\w*=", cleaned[prefix]):
        name, _, value = cleaned[prefix].partition("=")
        env[name] = value
        prefix += 1
    starts = of_command(Command(cleaned[prefix:], env, []), nesting=0)
    return built(starts, Path(), " ".join(" ".join(words)[:60].split()))


def read_text(
    text: str, name: str = "the text", directory: Path | None = None, variables: Mapping[str, str] | None = None
) -> list[Deployment]:
    """The deployments of a script, compose file, manifest or unit given as text.

    name: for sentences. directory: where --config may find its file. variables: values of shell variables.
    KvplanError when the text is too large or starts no server.
    """
    if len(text) > MAX_BYTES:
        raise KvplanError(f"{name} is larger than {MAX_BYTES // 2**20} MiB: give a file with the command only")
    return built(starts_in(clean(text.removeprefix("\ufeff")), name, variables), directory, name)


def read_file(path: str | Path, variables: Mapping[str, str] | None = None) -> list[Deployment]:
    """As read_text(), for a file; --config files are read from its directory."""
    try:
        with open_read(path) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a file name"
        raise KvplanError(f"{path} cannot be read ({reason}): give a file with a serve line") from None
    text = data.decode("utf-8-sig", errors="replace")
    if len(data) > MAX_BYTES:
        raise KvplanError(f"{path} is larger than {MAX_BYTES // 2**20} MiB: give a file with the command only")
    return read_text(text, str(path), Path(path).parent, variables)


def built(starts: Iterator[Launch], directory: Path | None, name: str) -> list[Deployment]:
    """The deployments of all starts; KvplanError when there is none."""
    deployments: list[Deployment] = []
    for launch in starts:
        if len(deployments) == MAX_STARTS:
            raise KvplanError(f"{name} starts more than {MAX_STARTS} servers: split it")
        if len(launch.args) > MAX_ARGUMENTS:
            raise KvplanError(f"{name} has a command of more than {MAX_ARGUMENTS} words: give a shorter one")
        deployments.append(build(launch, directory))
    if not deployments:
        raise KvplanError(f"{name}: {NO_START}")
    return deployments


def starts_in(text: str, name: str, variables: Mapping[str, str] | None, nesting: int = 0) -> Iterator[Launch]:
    """The starts in a text of any kind."""
    from kvplan.serve.dockerfiles import is_dockerfile, of_dockerfile
    from kvplan.serve.units import is_supervised, is_unit, of_supervised, of_unit

    if is_unit(text):
        return of_unit(text)
    if is_supervised(text):
        return of_supervised(text)
    if looks_like_yaml(text, name):
        return in_yaml(text, name)
    if is_dockerfile(text):
        return of_dockerfile(text)
    return in_script(unfenced(text), variables, nesting)


def in_script(text: str, variables: Mapping[str, str] | None, nesting: int) -> Iterator[Launch]:
    """The starts in a script; where it has none, those in what it writes or hands on: a script, a unit, a manifest."""
    from kvplan.serve.launch import launches
    from kvplan.serve.shell import read_script

    found = False
    for launch in launches(text, variables):
        found = True
        yield launch
    if found or nesting >= MAX_HEREDOCS or "<<" not in text:
        return
    script = read_script(text, variables)
    for name, body in [*script.files.items(), *(("a heredoc", body) for body in script.fed)]:
        if "vllm" in body:
            yield from starts_in(body, name, None, nesting + 1)


def looks_like_yaml(text: str, name: str) -> bool:
    """A YAML name, or the keys with which manifests and compose files begin."""
    if name.lower().endswith(YAML_NAMES):
        return True
    if "<<" in text and re.search(r"(?m)^[^#\n:]*\S\s+<<-?\s*['\"]?\w+", text):
        return False
    keys = set(re.findall(r"(?m)^(apiVersion|kind|services):", text))
    return "services" in keys or keys == {"apiVersion", "kind"} or text.lstrip().startswith('{"apiVersion"')


def in_yaml(text: str, name: str) -> Iterator[Launch]:
    """The starts in a YAML text: manifests, compose files, or a config file as vllm serve --config takes it."""
    from kvplan.serve.containers import of_documents
    from kvplan.serve.launch import launches
    from kvplan.serve.yamlfile import load_documents

    try:
        documents = load_documents(text, name)
    except ValueError as error:
        raise KvplanError(str(error)) from None
    if len(documents) == 1 and is_config(documents[0]):
        return iter([Launch(["--config", "config.yaml"], True, {}, [], {"config.yaml": text})])
    if len(documents) == 1 and isinstance(documents[0], str):
        return launches(text)
    return of_documents(documents)


def is_config(document: object) -> bool:
    """Whether a mapping is a config file of vLLM: it names a model and otherwise only flags."""
    from kvplan.serve.flagtable import option_strings

    if not isinstance(document, dict) or "model" not in document:
        return False
    names = {"--" + str(key).split(".")[0].replace("_", "-") for key in document}
    return len(names & set(option_strings())) * 2 > len(names)


def unfenced(text: str) -> str:
    """The text without the fences and prompts of a document it was pasted from."""
    text = re.sub(r"(?m)^[ \t]*(```|~~~).*$", "", text)
    return re.sub(r"(?m)^[ \t]*(\$|>|PS [^>\n]*>|[A-Za-z]:\\[^>\n]*>)[ \t]+(?=\S)", "", text)


def to_document(deployments: list[Deployment]) -> dict[str, object]:
    """The JSON document of `kvplan args`."""
    return {
        "deployments": [
            {
                "model": deployment.model,
                "options": plain_json(deployment.options),
                "env": deployment.env,
                "ignored": list(deployment.ignored),
                "errors": list(deployment.errors),
            }
            for deployment in deployments
        ]
    }


def plain_json(value: object) -> object:
    """The value without what JSON cannot hold: infinities and NaN become their names."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_json(item) for item in value]
    return value
