"""A config.json as checked values: every read says which type and range it expects, every error names the field.

Configs are untrusted. No value is used before its type and bounds are known, and nothing in them is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvplan.errors import KvplanError

_MISSING: Any = object()
MAXIMUM = 2**40
"""Largest integer any read accepts unless it sets its own bound."""
MAXIMUM_LAYERS = 20_000
"""Largest number of layers: a bound on the lists that are derived from it."""


class Config:
    """One JSON object of a config.json with the defaults of its Hugging Face config class.

    ``where`` names the file (and the path inside it) in errors. A key that the file has wins over a default, also
    when its value is null; a key in neither is an error on read, unless the read gives its own default. ``aliases``
    are the config class's further names of a key (Transformers' ``attribute_map``): either name reads the value.
    ``sections`` are nested configs that were read with defaults of their own.
    """

    __slots__ = ("aliases", "data", "defaults", "sections", "where")

    def __init__(
        self,
        data: Mapping[str, Any],
        where: str,
        defaults: Mapping[str, Any] | None = None,
        aliases: Mapping[str, str] | None = None,
        sections: Mapping[str, Config] | None = None,
    ) -> None:
        self.data = data
        self.where = where
        self.defaults = defaults or {}
        self.aliases = aliases or {}
        self.sections = sections or {}

    def __contains__(self, key: str) -> bool:
        """Whether the key has a value: in the file or among the defaults, null included (Python's ``hasattr``)."""
        key = self.aliases.get(key, key)
        return key in self.data or key in self.defaults

    def keys(self) -> Iterator[str]:
        """Every key once: those of the file first, then those that only the defaults have. No aliases."""
        yield from self.data
        yield from (key for key in self.defaults if key not in self.data)

    def get(self, key: str, default: Any = None) -> Any:
        """The raw value, unchecked: for presence tests and for values passed on to a checked read."""
        key = self.aliases.get(key, key)
        if key in self.data:
            return self.data[key]
        return self.defaults.get(key, default)

    def error(self, key: str, problem: str) -> KvplanError:
        """The one sentence for a value that cannot be used: the file, the field, ``problem``."""
        return KvplanError(f"{self.where}: {key} {problem}.")

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
        return self.checked_integer(key, value, minimum, maximum)

    def optional_integer(self, key: str, *, minimum: int = 1, maximum: int = MAXIMUM) -> int | None:
        """An integer in [minimum, maximum], or None where the key is missing or null."""
        value = self._value(key, None)
        return None if value is None else self.checked_integer(key, value, minimum, maximum)

    def checked_integer(self, key: str, value: Any, minimum: int = 1, maximum: int = MAXIMUM) -> int:
        """``value`` as an integer in [minimum, maximum]; 128.0 counts as 128, true does not count as 1."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"must be an integer, got {shown(value)}")
        if not minimum <= value <= maximum:
            raise self.error(key, f"must be between {minimum:,} and {maximum:,}, got {shown(value)}")
        return value

    def number(
        self, key: str, default: Any = _MISSING, *, minimum: float = -float(MAXIMUM), maximum: float = float(MAXIMUM)
    ) -> float:
        """A finite number in [minimum, maximum]. A null counts as missing when the read has a default."""
        value = self._value(key, default)
        if value is None and default is not _MISSING and default is not None:
            value = default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise self.error(key, f"must be a number, got {shown(value)}")
        if not minimum <= value <= maximum:
            raise self.error(key, f"must be between {minimum:,.15g} and {maximum:,.15g}, got {shown(value)}")
        return float(value)

    def boolean(self, key: str, default: Any = _MISSING) -> bool:
        """True or false; null counts as missing when the read has a default."""
        value = self._value(key, default)
        if value is None and isinstance(default, bool):
            value = default
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, got {shown(value)}")
        return value

    def truthy(self, key: str, default: bool = False) -> bool:
        """A flag as Python's truth sees it: for fields that vLLM tests with a bare ``if``; null is false."""
        value = self._value(key, default)
        if value is not None and not isinstance(value, (bool, int, float, str, list, dict)):
            raise self.error(key, f"must be true or false, got {shown(value)}")
        return bool(value)

    def text(self, key: str, default: Any = _MISSING) -> str:
        """A string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"must be a string, got {shown(value)}")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, or None where the key is missing or null."""
        value = self._value(key, None)
        return None if value is None else self.text(key)

    def sequence(self, key: str, default: Any = _MISSING, *, length: int | None = None) -> Sequence[Any]:
        """A list, of ``length`` entries where one is given."""
        value = self._value(key, default)
        if not isinstance(value, (list, tuple)):
            raise self.error(key, f"must be a list, got {shown(value)}")
        if length is not None and len(value) != length:
            raise self.error(key, f"must have {length} entries, got {len(value)}")
        return value

    def integers(
        self,
        key: str,
        default: Any = _MISSING,
        *,
        length: int | None = None,
        minimum: int = 0,
        maximum: int = MAXIMUM,
    ) -> list[int]:
        """A list of integers, each in [minimum, maximum]."""
        values = self.sequence(key, default, length=length)
        return [self.checked_integer(f"{key}[{i}]", v, minimum, maximum) for i, v in enumerate(values)]

    def texts(self, key: str, default: Any = _MISSING, *, length: int | None = None, allowed: Any = None) -> list[str]:
        """A list of strings, each one of ``allowed`` where that is given."""
        out: list[str] = []
        for i, value in enumerate(self.sequence(key, default, length=length)):
            if not isinstance(value, str) or (allowed is not None and value not in allowed):
                known = "a string" if allowed is None else f"one of {', '.join(sorted(allowed))}"
                raise self.error(f"{key}[{i}]", f"must be {known}, got {shown(value)}")
            out.append(value)
        return out

    def section(self, key: str, defaults: Mapping[str, Any] | None = None) -> Config | None:
        """The JSON object under ``key``, or None where it is missing or null."""
        if key in self.sections:
            found = self.sections[key]
            return found.with_defaults(defaults) if defaults else found
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(key, f"must be a JSON object, got {shown(value)}")
        return Config(value, f"{self.where}: {key}", defaults)

    def objects(self, key: str, default: Any = _MISSING, *, length: int | None = None) -> list[Config]:
        """A list of JSON objects, of ``length`` entries where one is given."""
        out = []
        for i, value in enumerate(self.sequence(key, default, length=length)):
            if not isinstance(value, Mapping):
                raise self.error(f"{key}[{i}]", f"must be a JSON object, got {shown(value)}")
            out.append(Config(value, f"{self.where}: {key}[{i}]"))
        return out

    def layer_fields(self) -> dict[int, Config]:
        """The fields that single layers have of their own, by layer: those that differ from the config's.

        ``per_layer_config``, whose keys may be padded with zeros; of two keys for a layer the last counts
        (transformers/integrations/heterogeneity/configuration_utils.py). ``skip`` is left out: vLLM does not read it.
        """
        overrides = self.get("per_layer_config")
        if overrides is None:
            return {}
        if not isinstance(overrides, Mapping):
            raise self.error("per_layer_config", f"must be a JSON object, got {shown(overrides)}")
        found: dict[int, Config] = {}
        for name, own in overrides.items():
            if not (str(name).isdecimal() and len(str(name)) < 9 and isinstance(own, Mapping)):
                raise self.error("per_layer_config", f"must have an object under each layer's number, got {name!r}")
            fields = {key: value for key, value in own.items() if key != "skip" and not self._says(key, value)}
            found[int(name)] = Config(fields, f"{self.where}: per_layer_config[{int(name)}]")
        return {index: fields for index, fields in found.items() if fields.data}

    def _says(self, key: str, value: Any) -> bool:
        return key in self and bool(self.get(key) == value)

    def layer(self, index: int) -> Config:
        """The config as it holds for one layer: with that layer's own fields put in place."""
        own = self.layer_fields().get(index)
        return self if own is None else self.replace(**own.data)

    def with_defaults(self, defaults: Mapping[str, Any]) -> Config:
        """The same object with further defaults; those it has already win."""
        return Config(self.data, self.where, {**defaults, **self.defaults}, self.aliases, self.sections)

    def replace(self, **values: Any) -> Config:
        """The same object with values put in place of the file's."""
        named = {self.aliases.get(key, key): value for key, value in values.items()}
        return Config({**self.data, **named}, self.where, self.defaults, self.aliases, self.sections)


def shown(value: Any) -> str:
    """A value as an error shows it: its repr, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
