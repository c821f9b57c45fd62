"""The local Hugging Face cache, read directly: huggingface_hub is not imported (it costs ten plans)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kvplan.errors import KvplanError
from kvplan.sources.jsonfile import check_is_config, read_object
from kvplan.sources.local import CONFIG, in_folder
from kvplan.sources.source import CACHE, Source


def folder(env: Mapping[str, str]) -> str:
    """The cache directory by the rules of huggingface_hub/constants.py."""
    for key in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if env.get(key):
            return _expanded(env[key], env)
    home = env.get("HF_HOME")
    if not home:
        home = os.path.join(env.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface")
    return os.path.join(_expanded(home, env), "hub")


def _expanded(path: str, env: Mapping[str, str]) -> str:
    if path.startswith("~") and env.get("HOME"):
        path = env["HOME"] + path[1:]
    return os.path.expanduser(os.path.expandvars(path))


def find(name: str, env: Mapping[str, str]) -> Source | None:
    """The cached config of an id at the commit that its ``main`` points to; None where it is not cached."""
    repository = os.path.join(folder(env), "models--" + name.replace("/", "--"))
    commit = _commit(os.path.join(repository, "refs", "main"))
    if commit is None:
        return None
    snapshot = os.path.join(repository, "snapshots", commit)
    path = os.path.join(snapshot, CONFIG)
    if not os.path.isfile(path):
        return None
    where = f"{name} (Hugging Face cache)"
    config = read_object(path, where)
    check_is_config(config, where)
    return in_folder(name, CACHE, config, where, snapshot)


def _commit(path: str) -> str | None:
    """The commit in a refs file; None where there is none. It becomes a path, so it must look like a commit."""
    try:
        with open(path, encoding="ascii") as file:
            commit = file.read(256).strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise KvplanError(f"{path}: cannot be read ({error}).") from None
    return commit if commit.isalnum() else None
