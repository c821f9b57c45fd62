"""From the physical lines of a log to records: one message each, with the process and the stream it came from.

A log reaches us through a terminal, docker, compose, kubectl, journald, Ray or a JSON formatter: each puts something
before the message, some colour it, and a terminal cuts it at its width. A record starts where a line has a process
tag, a log level or a JSON object; what follows without any of these is its continuation. Memory is bounded: a long
line comes in pieces and a record ends at RECORD_CHARS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import IO, NamedTuple

PIECE = 1 << 16
RECORD_CHARS = 1 << 18
_HEAD = 200
_MIN_WIDTH, _MAX_WIDTHS = 40, 512


Rows = list["Row"]


class Row(NamedTuple):
    """Words that must stand in a text before its patterns are tried, and the named patterns."""

    words: str
    patterns: tuple[tuple[str, re.Pattern[str]], ...]


class Record(NamedTuple):
    """One message, cleaned of colours and line ends.

    ``stream``: the compose service, pod or journald unit, "" when none is named. ``process``: the tags before the
    message, innermost last (``EngineCore_DP0 pid=7``), "" when none. ``text``: the physical lines, put together
    without a gap where a terminal cut them at its width, else with a newline between. ``rows``: the rows of the
    sentence table whose words stand in it.
    """

    stream: str
    process: str
    text: str
    rows: Rows


def records(
    lines: Iterable[bytes | str], wanted: Callable[[str], Rows], wanted_without_blanks: Callable[[str], Rows]
) -> Iterator[Record]:
    """The records in which something is wanted, in order; never raises for what the lines hold.

    ``wanted`` is asked about a single line, ``wanted_without_blanks`` about several lines with their blanks taken out,
    as a terminal may have dropped some where it cut.
    """
    joiner = _Joiner(wanted, wanted_without_blanks)
    pending: list[str] = []
    size, stream = 0, ""
    for line in _written(lines):
        if not pending or line.find("pid=", 0, _HEAD) >= 0 or size > RECORD_CHARS or _begins(line):
            if pending and (record := joiner.record(pending, stream)):
                yield record
            stream = _stream_of(line) or stream
            pending, size = [line], 0
        else:
            pending.append(line)
        size += len(line) + 8
    if pending and (record := joiner.record(pending, stream)):
        yield record


def _written(lines: Iterable[bytes | str]) -> Iterator[str]:
    """The physical lines, and apart what was written over another with a carriage return; no progress bars.

    A message that was printed while a bar stood on the line comes after it.
    """
    for raw in lines:
        line = raw if isinstance(raw, str) else bytes(raw).decode("utf-8", "replace")
        if "%|" not in line and line.find("\r", 0, -2) < 0:
            yield line
            continue
        for part in line.rstrip("\r\n").split("\r"):
            bar = _bar_end(part)
            found = _head_pattern().search(part, bar) if bar else None
            if found or not bar:
                yield part[found.start() :] if found else part


def _bar_end(part: str) -> int:
    """Where in a progress bar its percentage ends; 0 for what is none, or stands in a message."""
    bar = part.find("%|")
    is_bar = bar > 0 and part[bar - 1].isdigit() and not _head_pattern().search(part, 0, bar)
    return bar if is_bar else 0


def _begins(line: str) -> bool:
    """Whether a line without a process tag begins a record: a log level near its start, or a JSON object."""
    if line.startswith('{"'):
        return True
    for level in ("INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL"):
        if line.find(level, 0, _HEAD) >= 0:
            return _rx(rf"{level}(?:\x1b?\[0m)?:? ").search(line, 0, _HEAD + 20) is not None
    return False


class _Joiner:
    """Puts the physical lines of a record together; learns at which widths this log's lines were cut."""

    def __init__(self, wanted: Callable[[str], Rows], wanted_without_blanks: Callable[[str], Rows]) -> None:
        self.wanted, self.wanted_without_blanks = wanted, wanted_without_blanks
        self.widths: dict[int, int] = {}

    def record(self, parts: list[str], stream: str) -> Record | None:
        """The record of these lines, or None when nothing wanted is in it."""
        if len(parts) > 1:
            return self._several(parts, stream)
        line = parts[0]
        if "\\u" in line and line.startswith('{"'):
            line = _unwrapped(line)
        rows = self.wanted(line)
        if not rows:
            return None
        first = _clean(parts[0])
        return Record(stream, _process_of(first), _unwrapped(first), rows)

    def _several(self, parts: list[str], stream: str) -> Record | None:
        widths = self._learn(parts)
        if lead := _lead_of(parts[0]):
            shape = _shape_of(lead)
            parts = [parts[0], *(_without(shape, part) for part in parts[1:])]
        if not stream and not self.wanted_without_blanks("".join("".join(parts).split())):
            return None
        text = self._joined(parts, widths)
        rows = self.wanted_without_blanks("".join(text.split()))
        process = _process_of(_clean(parts[0])) or _process_of(text)
        return Record(stream, process, text, rows) if rows else None

    def _learn(self, parts: list[str]) -> list[int]:
        """The widths of all lines but the last, which are counted."""
        found = [len(part.rstrip("\r\n")) for part in parts[:-1]]
        widths = self.widths
        for width in found:
            if width in widths:
                widths[width] += 1
            elif width >= _MIN_WIDTH and len(widths) < _MAX_WIDTHS:
                widths[width] = 1
        return found

    def _joined(self, parts: list[str], widths: list[int]) -> str:
        pieces = [_unwrapped(_clean(parts[0]))]
        for before, part in zip(widths, parts[1:], strict=False):
            cut = self.widths.get(before, 0) > 1
            line = _without_prefix(_unwrapped(_clean(part)))
            pieces.append(line if cut else "\n" + line.lstrip())
        return "".join(pieces)


def open_log(stream: IO[bytes]) -> Iterator[bytes | str]:
    """The lines of an open binary file or pipe, in pieces of at most PIECE bytes; UTF-16 with a mark is decoded.

    PowerShell's ``>`` writes UTF-16. Raises OSError as the stream does.
    """
    first = stream.read(2)
    if first in (b"\xff\xfe", b"\xfe\xff"):
        import codecs

        decode = codecs.getincrementaldecoder("utf-16-le" if first == b"\xff\xfe" else "utf-16-be")("replace").decode
        yield from _decoded(stream, decode)
        return
    if first[1:] != b"\n":
        first += stream.readline(PIECE)
    while first:
        yield first
        first = stream.readline(PIECE)


def _decoded(stream: IO[bytes], decode: Callable[[bytes, bool], str]) -> Iterator[str]:
    rest = ""
    while chunk := stream.read(PIECE):
        *complete, rest = (rest + decode(chunk, False)).split("\n")
        yield from complete
        if len(rest) > PIECE:
            yield rest
            rest = ""
    yield rest + decode(b"", True)


def _process_of(line: str) -> str:
    if "pid=" not in line[:400]:
        return _process_in_json(line)
    tags = _rx(r"\(([A-Za-z][\w-]*(?: [\w=]{1,20})? pid=[0-9]+[^()]{0,60})\)").findall(line[:400])
    return " ".join(tags)


def _clean(line: str) -> str:
    line = line.rstrip("\r\n")
    if "\x1b" in line or _rx(r"\[[0-9;]{1,12}m").search(line):
        # Colours: the escape itself, as `less` and JSON write it, or what is left of it.
        line = _rx(r"(?:\x1b|\^\[|\\u001[bB]|\\x1b|\\033|␛)?\[[0-9;]{1,12}m|\x1b\[[0-9;?]{0,12}[A-Za-z]").sub("", line)
    return line.replace("\x00", "") if "\x00" in line else line


def _stream_of(line: str) -> str:
    """The compose service, pod or journald unit before the message, or ""."""
    if line.startswith("("):
        return ""
    found = _stream_pattern().match(line)
    name = next((group for group in found.groups() if group), "") if found else ""
    return "" if name in ("INFO", "WARNING", "ERROR", "DEBUG", "CRITICAL") else name


def _lead_of(line: str) -> str:
    """What stands before vLLM's own text: a quotation mark, an indentation, a line number, a transport's prefix."""
    found = _head_pattern().search(line, 0, _HEAD)
    return line[: found.start()] if found else ""


@lru_cache(1)
def _head_pattern() -> re.Pattern[str]:
    return re.compile(r"\([A-Za-z][\w-]*(?: [\w=]{1,20})? pid=[0-9]|\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)[ :\x1b]")


@lru_cache(16)
def _shape_of(lead: str) -> re.Pattern[str]:
    """The lead, or its first words, with any numbers in it: times and line numbers change from line to line.

    What a terminal cut and something else then marked carries the marks, but what stood before them only once.
    """
    words = [re.sub("[0-9]+", "[0-9]+", re.escape(word)) for word in re.findall(r"[0-9]+:|\S*\s+|\S+$", lead)]
    words = [
        " *" if not word.strip("\\ ") and more else word for word, more in zip(words, [*words[1:], ""], strict=True)
    ]
    return re.compile("(?:".join(words) + ")?" * (len(words) - 1))


def _without(shape: re.Pattern[str], line: str) -> str:
    found = shape.match(line)
    return line[found.end() :] if found else line


def _without_prefix(line: str) -> str:
    found = _prefix_pattern().match(line)
    return line[found.end() :] if found else line


_STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.,]{8,18}(?:Z|[+-][0-9:]{4,6})?"
_SYSLOG = rf"(?:[A-Z][a-z]{{2}} [ 0-9][0-9] [0-9:]{{8}}|{_STAMP}) \S{{1,100}}"
_STREAM = (
    rf"\[pod/([^\]\s]{{1,200}})\] ?|([A-Za-z][\w.-]{{0,100}}) {{0,60}}\| ?|{_SYSLOG} ([\w@./-]{{1,100}})\[[0-9]+\]: ?"
)


@lru_cache(1)
def _stream_pattern() -> re.Pattern[str]:
    return re.compile(_STREAM)


@lru_cache(1)
def _prefix_pattern() -> re.Pattern[str]:
    """What a transport puts before each physical line: a stream's name, a time, the container runtime's P or F."""
    return re.compile(rf"(?:{_STREAM}|{_STAMP} (?:\| ?|std(?:out|err) [FP] )?){{1,3}}")


def _unwrapped(line: str) -> str:
    """The message inside a JSON line (vLLM's JSON formatter, docker's json-file), or the line as it is."""
    brace = line.find('{"')
    if brace < 0 or not any(key in line for key in _JSON_KEYS):
        return line
    found = _json_object(line[brace:])
    while isinstance(nested := found.get("jsonPayload"), dict):
        found = nested
    for key in _MESSAGE_KEYS:
        if isinstance(value := found.get(key), str):
            inner = _clean(value)
            return _unwrapped(inner) if inner.startswith("{") and len(inner) < len(line) else inner
    return line


_MESSAGE_KEYS = ("message", "log", "msg", "MESSAGE", "textPayload", "line", "_msg", "body")
_JSON_KEYS = tuple(f'"{key}"' for key in _MESSAGE_KEYS)


def _process_in_json(line: str) -> str:
    if '"processName"' not in line or (brace := line.find('{"')) < 0:
        return ""
    name = _json_object(line[brace:]).get("processName")
    return name if isinstance(name, str) else ""


def _json_object(text: str) -> dict[str, object]:
    import json

    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@lru_cache(16)
def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
