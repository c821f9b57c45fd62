"""A config that was found: what it is called, where it lies, and its parsed files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

PATH, BUNDLED, CACHE, HUB = "path", "bundled", "cache", "hub"
"""Values of `Source.source`."""

_NO_FACTS: Mapping[str, Any] = {}


class Source:
    """One resolved model or drafter. Its config is parsed; further files of it are read when asked for."""

    def __init__(
        self,
        id: str,
        source: str,
        config: Mapping[str, Any],
        where: str,
        *,
        folder: str | None = None,
        read_file: Callable[[str], Mapping[str, Any] | None] | None = None,
        facts: Mapping[str, Any] = _NO_FACTS,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.id = id
        """The model's id (owner/name), or the path as given for a local one."""
        self.source = source
        """path | bundled | cache | hub."""
        self.config = config
        """The parsed config.json: untrusted, read it through `kvplan.hf`."""
        self.where = where
        """What errors call the file: a path, or the id with the kind of source."""
        self.folder = folder
        """The local directory with the model's files, where there is one (weights may lie in it)."""
        self.facts = facts
        """What a bundled file knows besides the config: where its numbers come from, ``tensor_bytes``."""
        self.notes = notes
        """What the user should know of how the config was found."""
        self._read_file = read_file

    def file(self, name: str) -> Mapping[str, Any] | None:
        """A further small JSON object of the model (hf_quant_config.json, generation_config.json, ...), or None.

        KvplanError when the file is there but cannot be read.
        """
        return self._read_file(name) if self._read_file is not None else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the config in canonical JSON: the same for every spelling of the same content."""
        import hashlib
        import json

        text = json.dumps(self.config, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Source(id={self.id!r}, source={self.source!r}, where={self.where!r})"
