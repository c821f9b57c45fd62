"""Where a command starts vLLM's server: vllm serve, python -m, a container image, or a shell inside the command."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kvplan.serve.marks import mark, unmark
from kvplan.serve.script import Command
from kvplan.serve.shell import read_script
from kvplan.serve.start import Launch

SERVE_MODULES = ("vllm.entrypoints.cli.main", "vllm")
API_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.launchers.api_server.entry")
GONE_MODULE = "vllm.entrypoints.api_server"
API_SCRIPTS = ("openai/api_server.py", "api_server/entry.py")
# Commands that only mention a serve line.
MENTIONING = (
    ": echo printf grep egrep pgrep pkill kill killall which whereis man alias cat tail head less sed awk logger pip "
    "pip3 curl wget git ls cd rm cp mv mkdir test [ [[ ps history read sleep export declare readonly local tee touch"
)
CONTAINER_TOOLS = ("docker", "podman", "nerdctl", "docker.exe", "podman.exe")
# Options of docker run without a value. Source: docker run --help.
BARE_LONG = (
    "--detach --disable-content-trust --help --init --interactive --no-healthcheck --oom-kill-disable --privileged "
    "--publish-all --quiet --read-only --rm --sig-proxy --tty --use-api-socket --replace --tls-verify"
)
BARE_SHORT = "ditPq"
# Images whose entrypoint is vllm serve already.
OFFICIAL = re.compile(r"(^|/)vllm-openai[\w.-]*(:|@|$)")
MAX_NESTING = 4


def launches(
    text: str, variables: Mapping[str, str] | None = None, nesting: int = 0, given: Sequence[str] = ()
) -> Iterator[Launch]:
    """Every start of the server in a script. given: its arguments, from $0 on."""
    if nesting > MAX_NESTING:
        return
    script = read_script(text, variables, given)
    for command in script.commands:
        for launch in of_command(command, nesting):
            yield launch._replace(files={**script.files, **launch.files})


def of_command(command: Command, nesting: int = 0) -> Iterator[Launch]:
    """The starts in one command, a nested shell's included."""
    words = command.words
    if not words or base_name(words[0]) in MENTIONING.split():
        return
    forgotten = [
        f"the line before {flag} has no line continuation: end it with a backslash, or the shell runs it alone"
        for flag in command.forgotten[:1]
    ]
    container = container_at(words)
    if container is not None:
        found = of_container(words[container:], command.env, nesting)
    else:
        found = of_words(words, command.env, nesting)
    for launch in found:
        yield launch._replace(errors=[*forgotten, *launch.errors])


def of_words(words: list[str], env: Mapping[str, str], nesting: int = 0) -> Iterator[Launch]:
    """The start in plain words: behind any wrapper, or inside an argument that is itself a script."""
    at = start_at(words)
    if at is not None:
        index, serve = at
        own = dict(assignments(words[:index]))
        env = passed_on(words[:index], env)
        gone = [f"the module {GONE_MODULE} is gone from vLLM: write vllm serve MODEL"] if GONE_MODULE in words else []
        yield Launch(words[index:], serve, {**env, **own}, gone, {})
        return
    for position, word in enumerate(words[1:], 1):
        if re.search(r"\s", word) and "vllm" in word.lower():
            inner = {**env, **dict(assignments(words[:position]))}
            shell = re.fullmatch("-[a-z]*c", words[position - 1]) is not None
            yield from launches(word, inner, nesting + 1, words[position + 1 :] if shell else ())


def start_at(words: list[str]) -> tuple[int, bool] | None:
    """(index of the first argument, whether under vllm serve) of the server in these words."""
    for index, word in enumerate(words):
        following = words[index + 1 : index + 2]
        name = base_name(word)
        if (name in ("vllm", "vllm.exe") or ("$" in name and "vllm" in name.lower())) and following == ["serve"]:
            return index + 2, True
        if word == "-m" and following and following[0] in (*API_MODULES, GONE_MODULE):
            return index + 2, False
        if word == "-m" and following and following[0] in SERVE_MODULES and words[index + 2 : index + 3] == ["serve"]:
            return index + 3, True
        if word.replace("\\", "/").endswith(API_SCRIPTS):
            return index + 1, False
    return None


def assignments(words: list[str]) -> Iterator[tuple[str, str]]:
    """NAME=value words, as env and sudo take them."""
    for word in words:
        found = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", word, re.DOTALL)
        if found:
            yield found.group(1), found.group(2)


def passed_on(wrappers: list[str], env: Mapping[str, str]) -> dict[str, str]:
    """The environment that sudo and env leave: sudo none of it unless told, env -i none, env -u all but one."""
    left = dict(env)
    names = [base_name(word) for word in wrappers]
    if "sudo" in names:
        options = wrappers[names.index("sudo") + 1 :]
        if not any(re.match(r"-[A-Za-z]*E|--preserve-env", word) for word in options if word.startswith("-")):
            left.clear()
    if "env" in names:
        options = wrappers[names.index("env") + 1 :]
        if any(word in ("-i", "-", "--ignore-environment") for word in options):
            left.clear()
        for word, following in zip(options, [*options[1:], ""], strict=True):
            if word in ("-u", "--unset"):
                left.pop(following, None)
            elif word.startswith("--unset="):
                left.pop(word.removeprefix("--unset="), None)
    return left


def base_name(word: str) -> str:
    """The last part of a path, of either kind."""
    return str(unmark(word)).replace("\\", "/").rstrip("/").rpartition("/")[2]


def container_at(words: list[str]) -> int | None:
    """The index after 'docker run', or None."""
    for index, word in enumerate(words):
        if base_name(word) in CONTAINER_TOOLS:
            following = words[index + 1 : index + 4]
            for offset, name in enumerate(following, index + 2):
                if name in ("run", "create"):
                    return offset
    return None


def of_container(words: list[str], outer: Mapping[str, str], nesting: int) -> Iterator[Launch]:
    """The start in what follows 'docker run': its own environment, the image's entrypoint, the tail."""
    env: dict[str, str] = {}
    entrypoint: str | None = None
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        name, value, index = container_option(words, index)
        if name in ("-e", "--env"):
            key, equals, text = value.partition("=")
            env[key] = text if equals else outer.get(key, mark("$" + key))
        elif name == "--entrypoint":
            entrypoint = value
    index += words[index : index + 1] == ["--"]
    if index < len(words):
        yield from of_image(words[index], entrypoint, words[index + 1 :], env, nesting)


def container_option(words: list[str], index: int) -> tuple[str, str, int]:
    """(option, value, index of the next word) of one option of docker run."""
    word = words[index]
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals or name in BARE_LONG.split():
            return name, value, index + 1
        return name, "".join(words[index + 1 : index + 2]), index + 2
    letters = word[1:]
    while letters and letters[0] in BARE_SHORT:
        letters = letters[1:]
    if not letters:
        return word, "", index + 1
    name, value = "-" + letters[0], letters[1:].removeprefix("=")
    if value:
        return name, value, index + 1
    return name, "".join(words[index + 1 : index + 2]), index + 2


def names_flags(words: list[str]) -> bool:
    """Whether words hold a flag of vLLM: other programs serve too."""
    from kvplan.serve.flagtable import option_strings

    return any(word.partition("=")[0] in option_strings() for word in words)


def of_image(
    image: str, entrypoint: str | None, tail: list[str], env: Mapping[str, str], nesting: int = 0
) -> Iterator[Launch]:
    """The start in a container: its command, or an image of vLLM that is given only arguments."""
    return within(image, _in_image(image, entrypoint, tail, env, nesting))


def within(image: str, found: Iterable[Launch]) -> Iterator[Launch]:
    """The starts in a container, which know their image."""
    return (launch._replace(image=image) for launch in found)


def _in_image(
    image: str, entrypoint: str | None, tail: list[str], env: Mapping[str, str], nesting: int
) -> Iterator[Launch]:
    if entrypoint:
        yield from of_words([entrypoint, *tail], env, nesting)
        return
    found = list(of_words(tail, env, nesting)) if tail else []
    if found and OFFICIAL.search(image):
        yield from (
            launch._replace(
                errors=[
                    f"the image {unmark(image)} starts vllm serve by itself: leave {' '.join(tail[:2])!r} out, "
                    "or set the entrypoint",
                    *launch.errors,
                ]
            )
            for launch in found
        )
    elif found:
        yield from found
    elif tail[:1] == ["serve"] and names_flags(tail) and not OFFICIAL.search(image):
        yield Launch(tail[1:], True, dict(env), [], {})
    elif "vllm" in image.lower() and (tail or OFFICIAL.search(image)):
        yield Launch(tail, True, dict(env), [], {})
