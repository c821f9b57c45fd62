"""The defaults of one model type's config class, from the table that scripts/hf_defaults.py writes."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

_TABLE = os.path.join(os.path.dirname(__file__), "defaults.jsonl")


@cache
def entry(model_type: str) -> dict[str, Any] | None:
    """The table's line for a model type: ``defaults``, ``aliases``, ``sections``, ``class``, ``from``; None: no line.

    Only that line is parsed: the whole table would cost a millisecond.
    """
    text = _table()
    start = ("\n" + text).find(f'\n{{"type": {json.dumps(model_type)}, ')
    if start < 0:
        return None
    found: dict[str, Any] = json.loads(text[start : text.index("\n", start)])
    return found


@cache
def _table() -> str:
    with open(_TABLE, encoding="utf-8") as file:
        return file.read()


def model_types() -> list[str]:
    """Every model type that the table has."""
    return [json.loads(line)["type"] for line in _table().splitlines()]
