"""Sizes as people write them, read as vLLM reads them, and printed as vLLM prints them."""

from __future__ import annotations

from kvplan.errors import KvplanError

GIB = 2**30
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_LONG = {
    **{f"{letter}iB": size for letter, size in _BINARY.items()},
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "B": 1,
}


def human_readable_int(text: str, flag: str) -> int:
    """``16k`` is 16,000, ``16K`` 16,384, ``25.6k`` 25,600 (vllm/utils/argparse_utils.py, human_readable_int).

    Raises KvplanError naming ``flag`` for anything else, among it a decimal with a binary suffix.
    """
    value = text.strip()
    number, suffix = value[:-1], value[-1:]
    if suffix in _DECIMAL and _is_number(number):
        return int(float(number) * _DECIMAL[suffix])
    if suffix in _BINARY and _is_number(number):
        if not number.isdecimal():
            raise KvplanError(
                f"{flag} {text}: no decimals before the binary suffix {suffix}; write {number}{suffix.lower()}."
            )
        return int(number) * _BINARY[suffix]
    try:
        return int(value)
    except ValueError:
        raise KvplanError(f"{flag} {text!r} is not a number; write for instance 8192, 16K (16,384) or 16k.") from None


def human_readable_bytes(text: str, flag: str) -> int:
    """A number of bytes: vLLM's own forms, and ``207GiB`` or ``80GB`` besides, decimals allowed there."""
    value = text.strip().replace(" ", "")
    for suffix, size in _LONG.items():
        number = value[: -len(suffix)]
        if value.endswith(suffix) and _is_number(number):
            return int(number) * size if number.isdecimal() else int(float(number) * size)
    try:
        return human_readable_int(value, flag)
    except KvplanError as error:
        if "binary suffix" in str(error):
            raise
        digits = value[: len(value) - len(value.lstrip("0123456789."))]
        example = f"{digits}GiB" if _is_number(digits) else "60GiB"
        raise KvplanError(f"{flag} {text!r} is not a number of bytes; write it as {example} for instance.") from None


def as_written(size: int) -> str:
    """Bytes exactly, in the unit that takes the fewest letters: ``60GiB``, ``1.5GiB``, ``80GB``; else the number."""
    found = [
        f"{size / n:.2f}".rstrip("0").rstrip(".") + suffix
        for suffix, n in _LONG.items()
        if 1 < n <= size and not size * 100 % n
    ]
    return min([*found, str(size)], key=len)


def as_flag(size: int) -> str:
    """Bytes exactly, as vLLM's parser takes them: ``60G``, ``80g``; else the number."""
    found = [f"{size // n}{suffix}" for suffix, n in {**_BINARY, **_DECIMAL}.items() if size and not size % n]
    return min([*found, str(size)], key=len)


def _is_number(text: str) -> bool:
    head, _, tail = text.partition(".")
    return head.isdecimal() and head.isascii() and ("." not in text or (tail.isdecimal() and tail.isascii()))


def format_gib(size: int) -> str:
    """Bytes in GiB as vLLM's log has them: rounded to two decimals, trailing zeros dropped."""
    return f"{round(size / GIB, 2)}"
