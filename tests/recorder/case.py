"""A deployment to record: a model, a GPU, vLLM's options under its own names, and the memory for the cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

DEFAULT_MEMORY = 100 * 2**30
DEFAULT_GPU = "B200"


class Case(NamedTuple):
    model: str
    """A bundled id, or the name of a file among the extra configs."""
    gpu: str = DEFAULT_GPU
    options: Mapping[str, Any] = MappingProxyType({})
    """Fields of vLLM's EngineArgs, and min_kv_cache_group_layers of pull request 58207."""
    env: Mapping[str, str] = MappingProxyType({})
    available_memory_bytes: int | tuple[int, ...] = DEFAULT_MEMORY
    """For the cache, per rank; one number for each pipeline stage, or one for all."""
    note: str = ""
    """Why the case is there, where that does not show."""

    @property
    def id(self) -> str:
        """A name that no other case has."""
        named = {**self.options, **self.env}
        drafter = (named.pop("speculative_config", None) or {}).copy()
        words = [self.model]
        if drafter:
            words.append("+ " + " ".join(str(value) for value in drafter.values()))
        words.append(f"on {self.gpu}")
        words += [f"{key}={_short(value)}" for key, value in named.items()]
        if self.available_memory_bytes != DEFAULT_MEMORY:
            words.append(f"memory={_short(self.available_memory_bytes)}")
        return " ".join(words)

    def memory(self, stages: int) -> list[int]:
        """Bytes for each pipeline stage."""
        given = self.available_memory_bytes
        return [given] * stages if isinstance(given, int) else list(given)

    def fields(self) -> dict[str, Any]:
        """The case as it stands in a file: what is not default."""
        default = Case("")
        return {key: value for key, value in self._asdict().items() if value != getattr(default, key)}


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def from_fields(fields: dict[str, Any]) -> Case:
    """The case that `Case.fields` wrote; other fields are ignored."""
    known = {key: fields[key] for key in Case._fields if key in fields}
    memory = known.get("available_memory_bytes")
    if isinstance(memory, list):
        known["available_memory_bytes"] = tuple(memory)
    return Case(**known)


def read(path: Path) -> list[Case]:
    """The cases of a file with one JSON object a line. ValueError where two are the same."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    cases = [from_fields(json.loads(line)) for line in lines]
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ValueError(f"{path}: {case.id} is there twice")
        seen.add(case.id)
    return cases
