"""What a shell's ${NAME...} makes of a value that is known: lengths, parts, patterns taken away or replaced, case.

Source of the rules: bash's manual, "Shell Parameter Expansion" and "Pattern Matching".
"""

import re
from typing import TypeVar

Items = TypeVar("Items", str, list[str])
MAX_TEXT = 1000
"""Characters up to which patterns are tried: each is tried at every place of a value."""
MAX_STARS = 4


def changed(value: str, operator: str, word: str, new: str = "") -> str | None:
    """The value under an operator such as ##, // or :, with its words expanded; None for what is not understood."""
    if len(value) > MAX_TEXT:
        return None
    if operator in ("#", "##", "%", "%%"):
        return trimmed(value, operator, word)
    if operator in ("/", "//", "/#", "/%"):
        return replaced(value, operator, word, new)
    if operator in ("^", "^^", ",", ",,") and not word:
        convert = str.upper if operator[0] == "^" else str.lower
        return convert(value) if len(operator) == 2 else convert(value[:1]) + value[1:]
    return part(value, word) if operator == ":" else None


def operator_of(rest: str) -> str:
    """The operator that what follows a name begins with; empty for none of these."""
    found = re.match(r"##?|%%?|/[/#%]?|\^\^?|,,?|:(?![-=+?])", rest)
    return found.group() if found else ""


def part(value: Items, word: str) -> Items | None:
    """${NAME:offset:length} of a text or an array."""
    found = re.fullmatch(r"\s*(-?\d{1,6})\s*(?::\s*(-?\d{1,6})\s*)?", word)
    if not found:
        return None
    start, length = int(found.group(1)), found.group(2)
    start = start if start >= 0 else len(value) + start
    end = len(value) if length is None else start + int(length) if int(length) >= 0 else len(value) + int(length)
    return value[start:end] if 0 <= start <= end else None


def trimmed(value: str, operator: str, word: str) -> str | None:
    """The value without the shortest or longest start or end that fits the pattern."""
    pattern = compiled(word)
    if pattern is None:
        return None
    sizes = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for size in sizes:
        if operator[0] == "#" and pattern.fullmatch(value[:size]):
            return value[size:]
        if operator[0] == "%" and pattern.fullmatch(value[len(value) - size :]):
            return value[: len(value) - size]
    return value


def words_of(operator: str, rest: str) -> tuple[str, str]:
    """What follows an operator, not yet expanded: a word, or a pattern and what replaces it."""
    found = re.match(r"""((?:\\.|'[^']*'|"[^"]*"|[^/\\])*)/?(.*)""", rest, re.DOTALL) if operator[:1] == "/" else None
    return (found.group(1), found.group(2)) if found else (rest, "")


def replaced(value: str, operator: str, text: str, new: str) -> str | None:
    """The value with what fits the pattern replaced: once, everywhere, at the start or at the end."""
    pattern = compiled(text)
    if pattern is None or not text:
        return None if pattern is None else value
    anchored = {"/#": rf"\A(?:{pattern.pattern})", "/%": rf"(?:{pattern.pattern})\Z"}.get(operator, pattern.pattern)
    return re.sub(anchored, lambda _: new, value, count=0 if operator == "//" else 1, flags=re.DOTALL)


def compiled(pattern: str) -> re.Pattern[str] | None:
    """A shell's pattern as a regular expression; None for one with sets, or with more stars than are tried."""
    if len(pattern) > 200 or pattern.count("*") > MAX_STARS or set(pattern) & set("[]()\\"):
        return None
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(character) or re.escape(character) for character in pattern), re.DOTALL)


def said(words: list[str]) -> str | None:
    """What a program prints that only passes its arguments on, without the last line break; None for others."""
    name, *given = words or [""]
    if name == "echo" and not re.fullmatch("-[eE]+n?[eE]*", (given or [""])[0]):
        return " ".join(given[1:] if given[:1] == ["-n"] else given)
    if name == "printf" and (given[:1] in (["%s"], ["%s\\n"]) and len(given) == 2):
        return given[1]
    if name == "printf" and len(given) == 1 and not set(given[0]) & set("%\\"):
        return given[0]
    if name == "basename" and given and not given[0].startswith("-"):
        last = given[0].rstrip("/").rpartition("/")[2]
        return last.removesuffix(given[1]) if len(given) == 2 and last != given[1] else last
    if name == "dirname" and len(given) == 1 and not given[0].startswith("-"):
        return given[0].rstrip("/").rpartition("/")[0] or ("/" if given[0].startswith("/") else ".")
    return None
