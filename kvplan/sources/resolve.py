"""From a name to a config: the order in which the places are searched."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kvplan.errors import KvplanError
from kvplan.sources import bundled, cache, local
from kvplan.sources.source import Source

MAXIMUM_NAME = 4096


def resolve(name: str, *, offline: bool = False, env: Mapping[str, str] | None = None) -> Source:
    """The config that ``name`` means: a local path, a bundled id, an id in the Hugging Face cache, an id on the hub.

    A bundled config that lacks something of its checkpoint gives way to a cached one that has it.
    ``offline`` keeps the last from being tried, as HF_HUB_OFFLINE does. ``env`` stands in for the process environment.
    KvplanError, in one sentence, where nothing is found or what is found is no model config.
    """
    env = os.environ if env is None else env
    if not name.strip() or len(name) > MAXIMUM_NAME or "\0" in name:
        raise KvplanError("the model must be a path or an id such as Qwen/Qwen3-8B, got an empty or unusable name.")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise KvplanError(f"{name!a}: not valid text; rename the path to plain UTF-8.")
    source = local.find(name)
    if source is not None:
        return source
    if local.is_path(name):
        raise KvplanError(f"{name}: no such file or directory.")
    source = bundled.find(name)
    source = cache.find(name, env) if source is None else _completed(source, env)
    if source is not None:
        return source
    check_id(name)
    if offline or _says_offline(env):
        raise KvplanError(f"{name}: not a path, not bundled and not in the Hugging Face cache{_nearest(name)}.")
    from kvplan.sources import hub

    return hub.find(name, env, hint=_nearest(name))


def _completed(source: Source, env: Mapping[str, str]) -> Source:
    """A bundled config, or the copy of it in the Hugging Face cache where that has what the bundled one lacks."""
    lacks = source.facts.get("lacks", ())
    found = cache.find(source.id, env) if lacks else None
    if found is None:
        return source
    quantized = found.config.get("quantization_config") is not None or "hf_quant_config.json" in found.names
    has = {"quantization": quantized, "params.json": found.has_mistral_format}
    return found if all(has[what] for what in lacks) else source


def check_id(name: str) -> None:
    """KvplanError where the name cannot be an id on the hub: owner/name of letters, digits, ``-``, ``_`` and ``.``."""
    parts = name.split("/")
    usable = all(part and part.replace("-", "").replace("_", "").replace(".", "").isalnum() for part in parts)
    if len(parts) > 2 or not usable or not name.isascii() or ".." in name or "--" in name or len(name) > 96:
        raise KvplanError(f"{name!r}: neither an existing path nor a model id such as Qwen/Qwen3-8B.")


def _says_offline(env: Mapping[str, str]) -> bool:
    return any(
        env.get(key, "").upper() in ("1", "ON", "YES", "TRUE") for key in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def _nearest(name: str) -> str:
    """A hint at bundled ids that look alike, or an empty text."""
    from difflib import get_close_matches

    known = {id.lower(): id for id in bundled.ids()}
    last = {id.rpartition("/")[2]: id for id in known}
    wanted = name.lower()
    close = get_close_matches(wanted, known, 3, 0.75) or [
        last[n] for n in get_close_matches(wanted.rpartition("/")[2], last, 3, 0.75)
    ]
    return (
        f"; bundled and near: {', '.join(known[id] for id in close)}"
        if close
        else "; `kvplan models` lists what is bundled"
    )
