"""A config.json as checked values: every read says which type and range it expects, every error names the field.

Configs are untrusted. No value is used before its type and bounds are known, and nothing in them is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvplan.errors import KvplanError

_MISSING: Any = object()
MAXIMUM = 2**40


class Config:
    """One JSON object of a config.json with the defaults of its Hugging Face config class.

    ``where`` names the file (and the path inside it) in errors. A key that the file has wins over a default, also
    when its value is null; a key in neither is an error on read, unless the read gives its own default.
    """

    __slots__ = ("data", "defaults", "where")

    def __init__(self, data: Mapping[str, Any], where: str, defaults: Mapping[str, Any] | None = None) -> None:
        self.data = data
        self.where = where
        self.defaults = defaults or {}

    def __contains__(self, key: str) -> bool:
        """Whether the key has a value: in the file or among the defaults, null included."""
        return key in self.data or key in self.defaults

    def keys(self) -> Iterator[str]:
        yield from self.data
        yield from (key for key in self.defaults if key not in self.data)

    def get(self, key: str, default: Any = None) -> Any:
        """The raw value, unchecked: for presence tests and for values passed on to a checked read."""
        if key in self.data:
            return self.data[key]
        return self.defaults.get(key, default)

    def error(self, key: str, problem: str) -> KvplanError:
        return KvplanError(f"{self.where}: {key} {problem}")

    def _value(self, key: str, default: Any) -> Any:
        value = self.get(key, _MISSING)
        if value is _MISSING:
            if default is _MISSING:
                raise self.error(key, "is missing; add it as the published config has it")
            return default
        return value

    def integer(self, key: str, default: Any = _MISSING, *, minimum: int = 1, maximum: int = MAXIMUM) -> int:
        """An integer in [minimum, maximum]. A null counts as missing when the read has a default."""
        value = self._value(key, default)
        if value is None and default is not _MISSING and default is not None:
            value = default
        return self._checked_integer(key, value, minimum, maximum)

    def optional_integer(self, key: str, *, minimum: int = 1, maximum: int = MAXIMUM) -> int | None:
        """An integer in [minimum, maximum], or None where the key is missing or null."""
        value = self._value(key, None)
        return None if value is None else self._checked_integer(key, value, minimum, maximum)

    def _checked_integer(self, key: str, value: Any, minimum: int, maximum: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"must be an integer, got {_shown(value)}")
        if not minimum <= value <= maximum:
            raise self.error(key, f"must be between {minimum} and {maximum}, got {_shown(value)}")
        return value

    def number(self, key: str, default: Any = _MISSING) -> float:
        """A finite number."""
        value = self._value(key, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value != value
            or abs(value) == float("inf")
        ):
            raise self.error(key, f"must be a number, got {_shown(value)}")
        return float(value)

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        """True or false; null counts as missing when the read has a default."""
        value = self._value(key, default)
        if value is None and isinstance(default, bool):
            value = default
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, got {_shown(value)}")
        return value

    def text(self, key: str, default: Any = _MISSING) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"must be a string, got {_shown(value)}")
        return value

    def optional_text(self, key: str) -> str | None:
        value = self._value(key, None)
        return None if value is None else self.text(key)

    def sequence(self, key: str, default: Any = _MISSING, *, length: int | None = None) -> Sequence[Any]:
        """A list, of ``length`` entries where one is given."""
        value = self._value(key, default)
        if not isinstance(value, (list, tuple)):
            raise self.error(key, f"must be a list, got {_shown(value)}")
        if length is not None and len(value) != length:
            raise self.error(key, f"must have {length} entries, got {len(value)}")
        return value

    def integers(self, key: str, *, length: int | None = None, minimum: int = 0, maximum: int = MAXIMUM) -> list[int]:
        """A list of integers, each in [minimum, maximum]."""
        values = self.sequence(key, length=length)
        return [self._checked_integer(f"{key}[{i}]", v, minimum, maximum) for i, v in enumerate(values)]

    def texts(self, key: str, default: Any = _MISSING, *, length: int | None = None, allowed: Any = None) -> list[str]:
        """A list of strings, each one of ``allowed`` where that is given."""
        out: list[str] = []
        for i, value in enumerate(self.sequence(key, default, length=length)):
            if not isinstance(value, str) or (allowed is not None and value not in allowed):
                known = "a string" if allowed is None else f"one of {', '.join(sorted(allowed))}"
                raise self.error(f"{key}[{i}]", f"must be {known}, got {_shown(value)}")
            out.append(value)
        return out

    def section(self, key: str, defaults: Mapping[str, Any] | None = None) -> Config | None:
        """The JSON object under ``key``, or None where it is missing or null."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(key, f"must be a JSON object, got {_shown(value)}")
        return Config(value, f"{self.where}: {key}", defaults)

    def with_defaults(self, defaults: Mapping[str, Any]) -> Config:
        """The same object with further defaults; those it has already win."""
        return Config(self.data, self.where, {**defaults, **self.defaults})

    def replace(self, **values: Any) -> Config:
        """The same object with values put in place of the file's."""
        return Config({**self.data, **values}, self.where, self.defaults)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
