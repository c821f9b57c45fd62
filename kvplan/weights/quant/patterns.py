"""Regular expressions from checkpoints: matched only where they cannot run away."""

from __future__ import annotations

import re
from functools import lru_cache

from kvplan.errors import Refused

_LONGEST = 2000
_NESTED = re.compile(r"[*+}]\)?[*+{]|\([^()]*[*+][^()]*\)[*+{]")
"""A repetition of what repeats itself: its matching time can grow with every character."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern. Refused where it is no expression, is very long, or repeats repetitions."""
    if len(pattern) > _LONGEST or _NESTED.search(pattern):
        raise Refused(f"quantization_config: the pattern {pattern[:60]!r} is too complex to match safely.")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Refused(
            f"quantization_config: the pattern {pattern[:60]!r} is no regular expression ({error})."
        ) from None
