"""A model on disk: a directory with a config.json, or the file itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kvplan.errors import KvplanError
from kvplan.sources.jsonfile import check_is_config, read_object, read_value, split_facts
from kvplan.sources.source import PATH, Source

CONFIG, PARAMS = "config.json", "params.json"


def is_path(name: str) -> bool:
    """Whether the name can only mean a path: it starts like one, or ends like a file that a model is kept in."""
    return name.startswith((".", "/", "~", "\\")) or name.endswith((".json", ".gguf")) or name[1:3] in (":\\", ":/")


def find(name: str) -> Source | None:
    """The model at the path ``name``; None where there is nothing. KvplanError where something else is there."""
    path = os.path.expanduser(name)
    if os.path.isdir(path):
        return _folder(name, path)
    if os.path.exists(path):
        config, facts = split_facts(read_object(path, name))
        check_is_config(config, name)
        folder = os.path.dirname(path) or "."
        # Sibling files belong to a model only when the config carries its published name.
        if os.path.basename(path) != CONFIG:
            return Source(name, PATH, config, name, facts=facts)
        return in_folder(name, PATH, config, name, folder, facts=facts)
    return None


def _folder(name: str, path: str) -> Source:
    file = os.path.join(path, CONFIG)
    where = os.path.join(name, CONFIG)
    if not os.path.isfile(file):
        source = in_folder(name, PATH, {}, os.path.join(name, PARAMS), path)
        if source.has_mistral_format:
            return source
        raise KvplanError(_without_config(name, path))
    config = read_object(file, where)
    check_is_config(config, where)
    return in_folder(name, PATH, config, where, path)


def in_folder(id: str, source: str, config: Mapping[str, Any], where: str, folder: str, **known: Any) -> Source:
    """The model of a config.json whose further files lie in the same directory."""

    def read(name: str) -> Any:
        path = os.path.join(folder, name)
        return read_value(path) if os.path.isfile(path) else None

    return Source(id, source, config, where, folder=folder, read_file=read, names=lambda: _names(folder), **known)


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _without_config(name: str, path: str) -> str:
    names = _names(path)
    if PARAMS in names:
        return (
            f"{name}: holds a params.json in Mistral format without its consolidated.safetensors, beside which alone "
            "vLLM reads it; add the config.json."
        )
    if "adapter_config.json" in names:
        return f"{name}: holds a PEFT adapter, not a model; give the base model's directory or id."
    if any(n.endswith(".gguf") for n in names):
        return f"{name}: holds a GGUF checkpoint, which kvplan does not read; add the model's config.json."
    return f"{name}: a directory without a config.json; give the directory that holds one, or the file itself."
