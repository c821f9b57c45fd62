"""The Hugging Face hub: config.json and small JSON files only, never code and never weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kvplan.errors import KvplanError
from kvplan.sources.jsonfile import MAXIMUM_BYTES, check_is_config, read_object, read_value
from kvplan.sources.local import CONFIG
from kvplan.sources.source import HUB, Source


def find(name: str, env: Mapping[str, str], *, hint: str = "") -> Source:
    """The config of an id on the hub. KvplanError where it is unknown, closed, or the hub cannot be reached."""
    where = f"{name} (hub)"
    path = _download(name, CONFIG, hint)
    if path is None:
        raise KvplanError(f"{name}: the repository on the hub has no config.json, so it is no model that kvplan reads.")
    config = read_object(path, where)
    check_is_config(config, where)

    def read_file(file: str) -> Any:
        found = _download(name, file, hint)
        return None if found is None else read_value(found, f"{where} {file}")

    return Source(name, HUB, config, where, read_file=read_file, names=lambda: _names(name, hint))


def _names(name: str, hint: str) -> list[str]:
    """The files at the top of a repository: one question, where each file would be one."""
    from huggingface_hub import list_repo_files

    try:
        return [file for file in list_repo_files(name) if "/" not in file]
    except Exception as error:  # as in _download
        raise KvplanError(_sentence(name, error, hint)) from None


def _download(name: str, file: str, hint: str) -> str | None:
    """The path of one small file after fetching it into the cache; None where the repository lacks it."""
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise KvplanError(f"{name}: not found locally, and huggingface_hub is not installed{hint}.") from None
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        size = get_hf_file_metadata(hf_hub_url(name, file), timeout=10).size
        if size is not None and size > MAXIMUM_BYTES:
            raise KvplanError(f"{name} (hub): {file} is larger than {MAXIMUM_BYTES // 2**20} MiB.")
        return hf_hub_download(name, file, etag_timeout=10)
    except KvplanError:
        raise
    except Exception as error:  # huggingface_hub raises its own, httpx's and the system's errors
        if _is(error, "EntryNotFoundError") and not _is(error, "LocalEntryNotFoundError"):
            return None
        raise KvplanError(_sentence(name, error, hint)) from None


def _is(error: BaseException, *names: str) -> bool:
    return any(cls.__name__ in names for cls in type(error).__mro__)


def _sentence(name: str, error: Exception, hint: str) -> str:
    if _is(error, "GatedRepoError"):
        return f"{name}: gated on the hub; accept its terms there and set HF_TOKEN, or give a local config.json."
    if _is(error, "RepositoryNotFoundError"):
        return f"{name}: not bundled, not in the local cache, and not on the hub (or private: set HF_TOKEN){hint}."
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"{name}: the hub answered {status}; try again, or give a local config.json{hint}."
    return f"{name}: not bundled, not in the local cache, and the hub cannot be reached ({type(error).__name__}){hint}."
