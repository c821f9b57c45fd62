"""Kubernetes manifests and compose files: every container or service that starts vLLM's server.

Source of the rules: the Kubernetes API (command, args and env of a container, $(NAME) in them) and the compose
specification (interpolation, command and entrypoint as text or list).
"""

import re
from collections.abc import Iterator, Mapping

from kvplan.serve.launch import base_name, launches, of_image, of_words, within
from kvplan.serve.marks import mark
from kvplan.serve.scope import Scope, Value, braced
from kvplan.serve.start import Launch
from kvplan.serve.words import PLAIN, Words

MAX_NODES = 200_000
SERVING_IMAGE = "vllm-openai"
"""For a runtime that KServe chooses: its arguments are those of the server."""
COMPOSE = re.compile(r"\$(\$|\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|[A-Za-z_]\w*)")


def is_compose(document: object) -> bool:
    """Whether a document looks like a compose file."""
    return isinstance(document, dict) and isinstance(document.get("services"), dict)


def is_manifest(document: object) -> bool:
    """Whether a document looks like a Kubernetes object."""
    return isinstance(document, dict) and "kind" in document and "apiVersion" in document


def of_documents(documents: list[object]) -> Iterator[Launch]:
    """Every start in the documents of one file; what a missing script hides is told when there is no other."""
    scripts = config_scripts(documents)
    missing: list[Launch] = []
    found = False
    for document in documents:
        starts = of_services(document) if is_compose(document) else of_manifest(document, scripts, missing)
        for launch in starts:
            found = True
            yield launch
    if not found:
        inside = [launch for document in documents for launch in of_strings(document)]
        yield from inside or missing


def of_strings(document: object) -> Iterator[Launch]:
    """The starts in texts anywhere in a document: the run step of a pipeline, the serve line of a fleet file."""
    outer = mapped_env(document)
    for node in nodes(document):
        values = list(node.values()) + [item for value in node.values() if isinstance(value, list) for item in value]
        env = {**outer, **mapped_env(node)}
        for value in values:
            if isinstance(value, str) and "vllm" in value and " " in value:
                yield from launches(value, env, 1)


def mapped_env(node: object) -> dict[str, str]:
    """The environment that a step of a pipeline or a task is given as a mapping."""
    found = [node.get(key) for key in ("env", "envs")] if isinstance(node, dict) else []
    return {name: value for each in found if isinstance(each, dict) for name, value in container_env(each).items()}


def nodes(root: object) -> Iterator[dict[object, object]]:
    """Every mapping below a node, containers not entered, each once: aliases must not multiply the work."""
    seen: set[int] = set()
    pending = [root]
    while pending and len(seen) < MAX_NODES:
        node = pending.pop()
        if not isinstance(node, dict | list) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            yield node
            if not is_container(node):
                pending += reversed(list(node.values()))
        else:
            pending += reversed(node)


def is_container(node: Mapping[object, object]) -> bool:
    """Whether a mapping has what a container has."""
    return any(isinstance(node.get(key), list) for key in ("args", "command")) or (
        isinstance(node.get("image"), str) and "name" in node
    )


def config_scripts(documents: list[object]) -> dict[str, str]:
    """File name -> text, of every ConfigMap."""
    scripts: dict[str, str] = {}
    for document in documents:
        for node in nodes(document):
            data = node.get("data")
            if node.get("kind") == "ConfigMap" and isinstance(data, dict):
                scripts.update((str(key), value) for key, value in data.items() if isinstance(value, str))
    return scripts


def of_manifest(document: object, scripts: Mapping[str, str], missing: list[Launch]) -> Iterator[Launch]:
    """The starts of a Kubernetes object, or of any YAML with containers in it."""
    for node in nodes(document):
        if not is_container(node):
            continue
        env = container_env(node.get("env"))
        command = [substituted(word, env) for word in texts(node.get("command"))]
        args = [substituted(word, env) for word in texts(node.get("args"))]
        image = node.get("image") if isinstance(node.get("image"), str) else ""
        if not command and not image and is_served_model(node):
            named = any(re.match("--model(=|$)", arg) for arg in args)
            args, image = args if named else [served_model(node), *args], SERVING_IMAGE
        found = list(of_words(command + args, env)) if command else list(of_image(str(image), None, args, env))
        if not found and command:
            found = of_script(command + args, env, scripts, missing)
        yield from within(str(image), found)


def is_served_model(node: Mapping[object, object]) -> bool:
    """Whether a mapping is the model of a KServe InferenceService that vLLM's runtime serves."""
    form = node.get("modelFormat")
    named = (node.get("runtime"), form.get("name") if isinstance(form, dict) else None)
    return isinstance(form, dict) and any("vllm" in str(name).lower() for name in named)


def served_model(node: Mapping[object, object]) -> str:
    """Where the runtime has put the model, or the id on the hub that it came from, as a flag."""
    uri = str(node.get("storageUri") or "")
    return "--model=" + (uri.removeprefix("hf://") if uri.startswith("hf://") else "/mnt/models")


def of_script(
    words: list[str], env: Mapping[str, str], scripts: Mapping[str, str], missing: list[Launch]
) -> list[Launch]:
    """The starts in a script that the container runs, when a ConfigMap of the same file holds it."""
    for word in words:
        name = base_name(word)
        if not name.endswith((".sh", ".bash")) or re.search(r"\s", word):
            continue
        if name in scripts:
            return list(launches(scripts[name], env, 1))
        sentence = f"the container runs {word}, which is not in this file: add the script or its ConfigMap"
        missing.append(Launch([], True, dict(env), [f"no model: {sentence}"], {}))
        break
    return []


def texts(value: object) -> list[str]:
    """A list of words as YAML gives it; numbers and booleans as they are written."""
    if isinstance(value, str):
        return [value]
    return [scalar(item) for item in value] if isinstance(value, list) else []


def scalar(value: object) -> str:
    """A YAML scalar as text."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def container_env(entries: object) -> dict[str, str]:
    """env of a container: a list of name and value, or a mapping; what comes from elsewhere has no value."""
    env: dict[str, str] = {}
    if isinstance(entries, dict):
        return {str(name): scalar(value) for name, value in entries.items() if not isinstance(value, dict | list)}
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or "name" not in entry:
            continue
        name = str(entry["name"])
        known = "value" in entry and not isinstance(entry["value"], dict | list)
        env[name] = substituted(scalar(entry["value"]), env) if known else mark(f"$({name})")
    return env


def substituted(text: str, env: Mapping[str, str]) -> str:
    """$(NAME) filled in from the container's environment, $$ as $; another name has no value here."""

    def one(found: re.Match[str]) -> str:
        if found.group() == "$$":
            return "$"
        return env.get(found.group(1), mark(found.group()))[: 2**16]

    return re.sub(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)", one, text)


def of_services(document: object) -> Iterator[Launch]:
    """The starts of a compose file."""
    services = document.get("services") if isinstance(document, dict) else None
    for service in services.values() if isinstance(services, dict) else []:
        if not isinstance(service, dict):
            continue
        env = service_env(service.get("environment"))
        command, entrypoint = service_words(service.get("command")), service_words(service.get("entrypoint"))
        image = interpolated(service["image"]) if isinstance(service.get("image"), str) else ""
        if entrypoint:
            yield from within(image, of_words(entrypoint + command, env))
        else:
            yield from of_image(image, None, command, env)


def service_words(value: object) -> list[str]:
    """command or entrypoint: text is split as a shell would split it, a list is taken word by word."""
    if isinstance(value, str):
        return Words(interpolated(value), Scope(), PLAIN).all()
    return [interpolated(word) for word in texts(value)]


def service_env(entries: object) -> dict[str, str]:
    """environment: a mapping or a list of NAME=value; a bare name comes from elsewhere."""
    env: dict[str, str] = {}
    pairs: list[tuple[str, object]] = []
    if isinstance(entries, dict):
        pairs = [(str(name), value) for name, value in entries.items()]
    elif isinstance(entries, list):
        for entry in entries:
            name, equals, value = scalar(entry).partition("=")
            pairs.append((name, value if equals else None))
    for name, given in pairs:
        if not isinstance(given, dict | list):
            env[name] = mark("$" + name) if given is None else interpolated(scalar(given))
    return env


def interpolated(text: str, nesting: int = 0) -> str:
    """${NAME:-default} and its like with nothing set; $$ is a dollar sign."""
    scope = Scope()

    def one(found: re.Match[str]) -> str:
        if found.group(1) == "$":
            return "$"
        if found.group(2) is None or nesting > 5:
            return mark(found.group())
        value: Value = braced(scope, found.group(2), lambda word: interpolated(word, nesting + 1))
        return value if isinstance(value, str) else " ".join(value)

    return COMPOSE.sub(one, text)
