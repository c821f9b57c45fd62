"""A config while its class's own computations are applied to it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from kvplan.hf.config import MAXIMUM_LAYERS, Config


class Draft(Config):
    """A config whose values may still be replaced. The rules of a config class read it checked and write it."""

    __slots__ = ("data", "dropped", "given", "raw")

    data: dict[str, Any]

    def __init__(
        self,
        data: Mapping[str, Any],
        where: str,
        defaults: Mapping[str, Any],
        aliases: Mapping[str, str],
    ) -> None:
        super().__init__({}, where, defaults, aliases)
        self.raw = data
        self.data = named_once(data, aliases)
        self.given = dict(self.data)
        self.dropped: set[str] = set()

    def put(self, key: str, value: Any) -> None:
        self.data[self.aliases.get(key, key)] = value

    def drop(self, key: str) -> Any:
        """The file's value of a key that the class takes and does not keep; None where the file has none."""
        self.dropped.add(key)
        return self.data.pop(key, None)

    def restore(self, fields: Container[str]) -> None:
        """A key of the file that is no field of the class is set last: it wins over what the class computed."""
        for key, value in self.given.items():
            if key not in fields and key not in self.dropped:
                self.data[key] = value

    def lacks(self, key: str) -> bool:
        """Whether the key has no value or a null one."""
        return self.get(key) is None

    def taken(self, key: str, default: int, minimum: int = 1) -> int:
        """An integer that the class takes with a default: an explicit null is no value, as it is none to the class."""
        return self.integer(key, minimum=minimum) if key in self.data else default

    def layers(self) -> int:
        """num_hidden_layers, bounded: lists of that length are derived from it."""
        return self.integer("num_hidden_layers", maximum=MAXIMUM_LAYERS)

    def frozen(self, sections: Mapping[str, Config] | None = None) -> Config:
        return Config(self.data, self.where, self.defaults, self.aliases, sections)


def named_once(data: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """The values under the class's own names. Where the file has both names, the alias wins, as in the class."""
    out = {key: value for key, value in data.items() if key not in aliases}
    out.update({aliases[key]: value for key, value in data.items() if key in aliases})
    return out


Rule = Callable[[Draft], None]
"""One computation of a config class: reads fields of the draft and puts others."""
