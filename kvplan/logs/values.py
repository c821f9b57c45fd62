"""Python reprs as a log prints them, read without evaluating anything.

The "non-default args" line is a dict, the engine line a row of ``key=value``. Both hold strings, numbers, lists and
nested dicts, and also what is no literal: enum members (``<CUDAGraphMode.FULL: 2>``), dtypes (``torch.bfloat16``),
config objects (``SpeculativeConfig(method='mtp', ...)``) and bare words. A truncated text gives what stands before the
cut. Work is linear in the text, nesting is bounded.
"""

from __future__ import annotations

import re
from functools import lru_cache

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
_DEPTH = 24
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_CONSTANTS: dict[str, bool | None] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}


def read_dict(text: str) -> dict[str, Value]:
    """The dict that a text begins with; {} when it begins with anything else."""
    value = _Scanner(text).value()
    return value if isinstance(value, dict) else {}


def read_pairs(text: str) -> dict[str, Value]:
    """``model='x', dtype=torch.bfloat16, ...`` as a dict, up to where the text stops having this form."""
    return _Scanner(text).pairs()


class _Scanner:
    """One pass over a text; every method leaves ``at`` after what it read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def value(self) -> Value:
        """One value; a bare word is a string, what is missing is None."""
        self._blanks()
        char = self.text[self.at : self.at + 1]
        if char in ("'", '"'):
            return self._string()
        if char in _CLOSERS and char:
            return self._nested(char)
        if char == "<":
            return self._enum()
        found = _number().match(self.text, self.at)
        if found:
            self.at = found.end()
            return _as_number(found.group())
        return self._word()

    def pairs(self) -> dict[str, Value]:
        """``key=value`` rows up to one that is none."""
        found: dict[str, Value] = {}
        while match := _key().match(self.text, self.at):
            self.at = match.end()
            found[match.group(1)] = self._pair_value()
        return found

    def _pair_value(self) -> Value:
        """A value that ends at the next ``, key=`` or at the end; whatever else stands there is taken as it is."""
        start = self.at
        value = self.value()
        if isinstance(value, dict | list) or _pair_end().match(self.text, self.at):
            return value
        stop, end = self.at, _next_pair().search(self.text, start)
        self.at = end.start() if end else len(self.text)
        if isinstance(value, int | float) and not self.text[stop].isalnum():  # what quoted or framed the line
            return value
        return self.text[start : self.at].strip()

    def _string(self) -> str:
        match = _quoted().match(self.text, self.at)
        if not match:  # cut before the closing quote
            rest = self.text[self.at + 1 :]
            self.at = len(self.text)
            return rest
        self.at = match.end()
        body = match.group()[1:-1]
        return _escape().sub(_unescaped, body) if "\\" in body else body

    def _nested(self, opener: str) -> Value:
        """A dict, list, set or tuple; nesting deeper than _DEPTH is skipped."""
        self.at += 1
        if self.depth >= _DEPTH:
            self.at = len(self.text)
            return None
        self.depth += 1
        items, keys = self._items(_CLOSERS[opener])
        self.depth -= 1
        if opener == "{" and (keys or not items):
            return keys
        return items

    def _items(self, closer: str) -> tuple[list[Value], dict[str, Value]]:
        items: list[Value] = []
        keys: dict[str, Value] = {}
        while True:
            self._blanks()
            start, char = self.at, self.text[self.at : self.at + 1]
            if not char:  # cut: the last value may be half a value
                if keys:
                    keys.popitem()
                return items[:-1], keys
            if char == closer:
                self.at += 1
                return items, keys
            if char == ",":
                self.at += 1
                continue
            value = self.value()
            self._blanks()
            if self.text[self.at : self.at + 1] in (":", "="):
                self.at += 1
                keys[str(value)] = self.value()
            else:
                items.append(value)
            if self.at <= start:  # a stray closer or another character that begins no value
                self.at = start + 1

    def _enum(self) -> str:
        """``<CUDAGraphMode.FULL: 2>`` is FULL; other angle brackets stay as they are."""
        match = _member().match(self.text, self.at)
        end = match.end() if match else self.text.find(">", self.at) + 1 or len(self.text)
        start, self.at = self.at, end
        return match.group(1) if match else self.text[start:end]

    def _word(self) -> Value:
        match = _bare().match(self.text, self.at)
        if not match:
            return None
        self.at = match.end()
        word = match.group()
        if self.text[self.at : self.at + 1] == "(":
            return self._call()
        return _CONSTANTS.get(word, word)

    def _call(self) -> Value:
        """The keyword arguments of ``Name(...)``, or its only positional one."""
        self.at += 1
        if self.depth >= _DEPTH:
            self.at = len(self.text)
            return None
        self.depth += 1
        items, keys = self._items(")")
        self.depth -= 1
        if keys or not items:
            return keys
        return items[0] if len(items) == 1 else items

    def _blanks(self) -> None:
        match = _space().match(self.text, self.at)
        self.at = match.end() if match else self.at


def _as_number(text: str) -> int | float:
    return float(text) if any(mark in text for mark in ".eE") else int(text)


def _unescaped(match: re.Match[str]) -> str:
    *codes, char = match.groups()
    code = next(filter(None, codes), None)
    if code is None:
        return _ESCAPES.get(char, match.group())
    point = int(code, 16)
    return chr(point) if point < 0x110000 else match.group()


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


@lru_cache(1)
def _number() -> re.Pattern[str]:
    return re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?(?![\w.\\/:-])")


@lru_cache(1)
def _quoted() -> re.Pattern[str]:
    return re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)


@lru_cache(1)
def _escape() -> re.Pattern[str]:
    return re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


@lru_cache(1)
def _member() -> re.Pattern[str]:
    return re.compile(r"<[A-Za-z_]\w*\.([A-Za-z_]\w*): [^<>]{0,200}>")


@lru_cache(1)
def _bare() -> re.Pattern[str]:
    return re.compile(r"[^\s,(){}\[\]=:'\"<>]+")


@lru_cache(1)
def _space() -> re.Pattern[str]:
    return re.compile(r"\s*")


@lru_cache(1)
def _key() -> re.Pattern[str]:
    return re.compile(r"[\s,]*([A-Za-z_]\w{0,80})=")


@lru_cache(1)
def _pair_end() -> re.Pattern[str]:
    return re.compile(r"\s*(?:,\s*(?:[A-Za-z_]\w{0,80}=|\Z)|\Z)")


@lru_cache(1)
def _next_pair() -> re.Pattern[str]:
    return re.compile(r",\s*[A-Za-z_]\w{0,80}=")
