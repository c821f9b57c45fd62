"""Numbers as text: sizes as vLLM's log prints them, counts with thousands separators, changes in percent."""

from __future__ import annotations

KIB = 1024
MIB = 1024**2
GIB = 1024**3


def gib(size: float) -> str:
    """Bytes in GiB with at most two decimals: ``200.0 GiB``, digit for digit what vLLM's log prints."""
    return f"{round(size / GIB, 2)} GiB"


def size(n: float) -> str:
    """Bytes in the largest binary unit that keeps the number at 1 or more: ``15 MiB``, ``1.25 MiB``, ``200.0 GiB``."""
    magnitude = abs(n)
    if magnitude >= GIB:
        return gib(n)
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if magnitude >= unit:
            return f"{_short(n / unit)} {name}"
    return f"{_short(n)} B"


def exact(n: float) -> str:
    """A size with its exact bytes: ``2.5 MiB (2,621,440 bytes)``; below 1 KiB the bytes alone."""
    return f"{number(n)} bytes" if abs(n) < KIB else f"{size(n)} ({number(n)} bytes)"


def signed_size(n: float) -> str:
    """A difference of sizes with its sign: ``+1.9 GiB``, ``-12 KiB``, ``0 B``."""
    return f"+{size(n)}" if n > 0 else size(n)


def number(n: float) -> str:
    """A count or length: ``262,144``; fractions keep at most two decimals."""
    if isinstance(n, int) or float(n).is_integer():
        return f"{int(n):,}"
    return f"{n:,.2f}"


def percent(fraction: float, *, sign: bool = False) -> str:
    """A fraction as a percentage of one decimal: ``50.0 %``, with ``sign`` ``-31.1 %`` or ``+0.0 %``."""
    value = round(fraction * 100, 1) + 0.0
    return f"{value:+,.1f} %" if sign else f"{value:,.1f} %"


def share(fraction: float) -> str:
    """A surplus as a short percentage: ``+50 %``, ``+16.7 %``."""
    return f"+{round(fraction * 100, 1):,g} %"


def concurrency(value: float) -> str:
    """Requests at once with two decimals, as vLLM logs it."""
    return f"{value:,.2f}"


def plural(n: int, one: str, many: str | None = None) -> str:
    """A count with its noun: ``1 group``, ``46 groups``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _short(value: float) -> str:
    """At most two decimals, without trailing zeros; a value that is not zero never reads as zero."""
    text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value:.2g}" if text in ("0", "-0") and value else text
