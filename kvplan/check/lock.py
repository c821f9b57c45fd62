"""kvplan.lock: per deployment the figures of its plan and the inputs that gave them. JSON, sorted, a line a value.

Every deployment and config carries a digest of its own, so that an edit by hand is found and an update changes only
the lines of what changed; the lock's digest covers its versions and the names in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan import __version__
from kvplan.check.case import Case, config_record, recorded, restored
from kvplan.check.figures import Figures
from kvplan.errors import KvplanError
from kvplan.files import open_read

NAME = "kvplan.lock"
VERSION = 1
MAX_BYTES = 64 * 2**20


class Entry(NamedTuple):
    """A recorded deployment."""

    figures: dict[str, Any]
    """As `Figures.recorded`."""
    inputs: Mapping[str, Any]


class Lock(NamedTuple):
    """A lock file that was read."""

    kvplan_version: str
    deployments: dict[str, Entry]
    configs: dict[str, Any]

    def case(self, name: str) -> Case:
        """The inputs that were recorded for a deployment. KvplanError where they are not kvplan's."""
        try:
            return restored(self.deployments[name].inputs, self.configs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise KvplanError(f"{NAME}: the inputs of {name} are damaged ({error!r}); {_RENEW}.") from None


_RENEW = "restore it from version control or write it anew with `kvplan check FILE --update`"


def beside(path: str) -> str:
    """The lock of a file of deployments."""
    return os.path.join(os.path.dirname(path), NAME)


def text(planned: Mapping[str, tuple[Case, Figures]]) -> str:
    """The lock's text for deployments by name."""
    from json import dumps

    configs: dict[str, dict[str, Any]] = {}
    for case, _ in planned.values():
        for source in (case.target, case.drafter):
            if source is not None:
                configs[source.id] = config_record(source)
    deployments = {
        name: {"figures": figures.recorded(), "inputs": recorded(case)} for name, (case, figures) in planned.items()
    }
    document = sealed(
        {
            "lock_version": VERSION,
            "kvplan_version": __version__,
            "deployments": deployments,
            "configs": configs,
        }
    )
    return dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its digests: of each deployment, of each config, and of what they stand in."""
    out = dict(document)
    for part in _PARTS:
        out[part] = {name: {**entry, "digest": _digest(name, entry)} for name, entry in document[part].items()}
    out["digest"] = _digest("", _frame(document))
    return out


_PARTS = ("deployments", "configs")


def _frame(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: sorted(value) if key in _PARTS else value for key, value in document.items()}


def _digest(name: str, entry: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of an entry under its name, without the digest that it carries."""
    from hashlib import sha256
    from json import dumps

    kept = {key: value for key, value in entry.items() if key != "digest"}
    return sha256(dumps([name, kept], sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def load(path: str) -> Lock:
    """The lock at ``path``. KvplanError, with what to do, where it is missing, foreign or broken."""
    import json

    try:
        with open_read(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise KvplanError(f"{path}: is missing; write it with `kvplan check FILE --update` and commit it.") from None
    except OSError as error:
        raise KvplanError(f"{path}: cannot be read ({error.strerror}).") from None
    if len(data) > MAX_BYTES:
        raise KvplanError(f"{path}: is larger than {MAX_BYTES // 2**20} MiB; {_RENEW}.")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise KvplanError(f"{path}: is no valid JSON; {_RENEW}.") from None
    return _checked(document, path)


def _checked(document: Any, path: str) -> Lock:
    if not isinstance(document, dict) or "lock_version" not in document:
        raise KvplanError(f"{path}: is no lock that kvplan wrote; {_RENEW}.")
    if document["lock_version"] != VERSION:
        raise KvplanError(
            f"{path}: has lock_version {str(document['lock_version'])[:20]}, and this kvplan reads {VERSION}; {_RENEW}."
        )
    deployments, configs = document.get("deployments"), document.get("configs")
    version = document.get("kvplan_version")
    if not isinstance(deployments, dict) or not isinstance(configs, dict) or not isinstance(version, str):
        raise KvplanError(f"{path}: deployments, configs or kvplan_version is damaged; {_RENEW}.")
    entries = {name: _entry(name, entry, path) for name, entry in deployments.items()}
    for part in _PARTS:
        for name, entry in document[part].items():
            _sealed(name, entry, f"{path}: the entry of {name[:80]}")
    _sealed("", _frame(document), path)
    return Lock(version, entries, configs)


def _sealed(name: str, entry: Any, what: str) -> None:
    """KvplanError where an entry is not as it was written."""
    if not isinstance(entry, dict) or entry.get("digest") != _digest(name, entry):
        raise KvplanError(f"{what} was changed after kvplan wrote it (its digest is another); {_RENEW}.")


def _entry(name: str, entry: Any, path: str) -> Entry:
    figures = entry.get("figures") if isinstance(entry, dict) else None
    inputs = entry.get("inputs") if isinstance(entry, dict) else None
    fields = {field for field in Figures._fields if field != "error"}
    if not isinstance(figures, dict) or set(figures) != fields or not isinstance(inputs, dict):
        raise KvplanError(f"{path}: the entry of {name[:80]} is damaged; {_RENEW}.")
    tokens, starts = figures["tokens"], figures["starts"]
    if not isinstance(starts, bool) or not (tokens is None or (type(tokens) is int and tokens >= 0)):
        raise KvplanError(f"{path}: the figures of {name[:80]} are damaged; {_RENEW}.")
    return Entry(figures, inputs)
