"""What vLLM does to its arguments before argparse sees them: model first, config file in, underscores, -O, dotted JSON.

Source: vllm/utils/argparse_utils.py, FlexibleArgumentParser.parse_args, _pull_args_from_config, load_config_file.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from kvplan.serve.values import size


class Notes(NamedTuple):
    """What came up while reading; both lists grow."""

    errors: list[str]
    dropped: list[str]  # what vLLM itself throws away


# A config file's text by the name in the command; OSError with a sentence when it cannot be had.
ReadFile = Callable[[str], str]


def prepare(args: list[str], serve: bool, read_file: ReadFile, notes: Notes) -> list[str]:
    """The arguments as argparse sees them. args: everything after 'serve', or after the api_server module."""
    if serve:
        args = model_first(args, notes)
    args = join_config(args, notes)
    if "--config" in args:
        args = with_config(args, serve, read_file, notes)
    return merge_dotted(normalise(args), notes)


def model_first(args: list[str], notes: Notes) -> list[str]:
    """--model MODEL under serve becomes the positional; a served name needs the model in front."""
    for index, arg in enumerate(args):
        if arg == "--model":
            if index + 1 == len(args):
                notes.errors.append("--model has no value: name the model after it")
                return args[:index]
            return [args[index + 1], *args[:index], *args[index + 2 :]]
        if re.match(r"--model=.", arg):
            return [arg.removeprefix("--model="), *args[:index], *args[index + 1 :]]
    named = any(re.match(r"--served[-_]model[-_]name(=.|$)", arg) for arg in args)
    if args and args[0].startswith("-") and named and not any(re.match(r"--config(=.|$)", arg) for arg in args):
        notes.errors.append(
            "--served-model-name needs the model as the first argument: write vllm serve MODEL --served-model-name ..."
        )
    return args


def join_config(args: list[str], notes: Notes) -> list[str]:
    """--config=FILE as --config FILE, with a sentence: vLLM accepts it and then never opens the file."""
    joined: list[str] = []
    for arg in args:
        if arg.startswith("--config=") and arg != "--config=":
            name = arg.removeprefix("--config=")
            notes.errors.append(
                f"--config={name} makes vLLM 0.33.0 ignore the file without a word: write --config {name} in two words"
            )
            joined += ["--config", name]
        else:
            joined.append(arg)
    return joined


def with_config(args: list[str], serve: bool, read_file: ReadFile, notes: Notes) -> list[str]:
    """The arguments with the file's in place of --config FILE: after the model, before everything else."""
    index = args.index("--config")
    if args.count("--config") > 1:
        notes.errors.append("--config is given more than once: vLLM takes one config file")
    if index + 1 == len(args):
        notes.errors.append("--config has no value: name the YAML file after it")
        return args[:index]
    from_file = config_args(args[index + 1], serve, read_file, notes)
    before, after = args[:index], args[index + 2 :]
    model_given = bool(args) and not args[0].startswith("-")
    if serve and not model_given and "--model" not in from_file:
        notes.errors.append("no model: with --config name it after vllm serve, or as model in the file")
    if serve and model_given:
        return [before[0], *from_file, *before[1:], *after]
    return [*from_file, *before, *after]


def config_args(name: str, serve: bool, read_file: ReadFile, notes: Notes) -> list[str]:
    """The flags that a config file stands for."""
    if name.split(".")[-1] not in ("yaml", "yml"):
        notes.errors.append(f"--config {name} is refused by vLLM: the file's name must end in .yaml or .yml")
        return []
    from kvplan.serve.yamlfile import load_documents

    try:
        documents = load_documents(read_file(name), f"--config {name}")
    except (OSError, ValueError) as error:
        notes.errors.append(str(error))
        return []
    if len(documents) != 1 or not isinstance(documents[0], dict):
        notes.errors.append(f"--config {name} is no mapping of flags to values: write one flag: value pair a line")
        return []
    args: list[str] = []
    for key, value in documents[0].items():
        args += config_entry(str(key), value, serve, notes)
    return args


def config_entry(key: str, value: object, serve: bool, notes: Notes) -> list[str]:
    """The arguments of one line of a config file.

    A false value becomes --no-KEY under api_server when that flag exists. Under vllm serve it is always dropped: the
    lookup there goes to the outer parser, which has no such flags.
    """
    if isinstance(value, bool):
        if value:
            return ["--" + key]
        from kvplan.serve.flagtable import option_strings

        if not serve and f"--no-{key}" in option_strings():
            return [f"--no-{key}"]
        notes.dropped.append(f"{key}: false")
        return []
    if isinstance(value, list):
        return ["--" + key, *(str(item) for item in value)] if value else []
    if isinstance(value, dict):
        return ["--" + key, json.dumps(value, default=str)]
    return ["--" + key, str(value)]


def normalise(args: list[str]) -> list[str]:
    """Underscores of a flag's name as dashes, up to its first dot; -O3, -O=3 and -O 3 as --optimization-level 3."""
    out: list[str] = []
    for index, arg in enumerate(args):
        if arg.startswith("--help="):
            out.append("--help")
        elif arg.startswith("--"):
            name, equals, value = arg.partition("=")
            head, dot, tail = name.partition(".")
            out.append(head.replace("_", "-") + dot + tail + equals + value)
        elif arg.startswith("-O") and arg != "-O":
            out += ["--optimization-level", arg[3:] if arg[2] == "=" else arg[2:]]
        elif arg == "-O" and args[index + 1 : index + 2] and args[index + 1] in ("0", "1", "2", "3"):
            out.append("--optimization-level")
        else:
            out.append(arg)
    return out


def merge_dotted(args: list[str], notes: Notes) -> list[str]:
    """--flag.key value pairs as one JSON argument a flag, at the end; a list in one key grows with each mention."""
    rest: list[str] = []
    merged: dict[str, dict[str, object]] = {}
    index = 0
    while index < len(args):
        name, equals, value = args[index].partition("=")
        index += 1
        if not (name.startswith("-") and "." in name):
            rest.append(name + equals + value)
            continue
        if not equals:
            if index == len(args):
                notes.errors.append(f"{name} has no value: write {name} VALUE")
                break
            value = args[index]
            index += 1
        if name.endswith("+"):
            name, value = name[:-1], json.dumps(value.split(","))
        head, *keys = name.split(".")
        put(merged.setdefault(head, {}), keys, dotted_value(value))
    for head, keys_given in merged.items():
        rest += [head, json.dumps(keys_given)]
    return rest


def dotted_value(text: str) -> object:
    """JSON when it is JSON, else a size such as 16k, else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return size(text)
    except ValueError:
        return text


def put(target: dict[str, object], keys: list[str], value: object) -> None:
    """Set a nested key; a mapping merges, a list grows, anything else is replaced."""
    for key in keys[:-1]:
        inner = target.get(key)
        if not isinstance(inner, dict):
            fresh: dict[str, object] = {}
            target[key] = inner = fresh
        target = inner
    old = target.get(keys[-1])
    if isinstance(old, dict) and isinstance(value, dict):
        for key, item in value.items():
            put(old, [key], item)
    elif isinstance(old, list) and isinstance(value, list):
        old += value
    else:
        target[keys[-1]] = value
