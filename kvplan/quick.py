"""`kvplan plan` without Typer, whose import takes longer than the plan.

Reads the same options as `kvplan.cli.plan` declares (a test holds them together) and leaves every line that it is not
sure of to Typer: help, completion, wrong usage, a line after ``--``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

VALUES = {
    "--gpu": "gpu",
    "--drafter": "drafter",
    "--method": "method",
    "--num-speculative-tokens": "num_speculative_tokens",
    "--engine": "engine",
    "--kv-cache-layout": "kv_cache_layout",
    "--layout-cost-check": "layout_cost_check",
    "--layout-agreement": "layout_agreement",
    "--weights-bytes": "weights_bytes",
    "--non-kv-memory-bytes": "non_kv_memory_bytes",
    "--from-log": "from_log",
    "--format": "format",
    "--output": "output",
    "-o": "output",
}
"""kvplan's own options of `plan` that take a value, and their names."""
SWITCHES = {"--offline": "offline", "--ascii": "ascii", "--verbose": "verbose"}
_LEFT_TO_TYPER = frozenset({"--", "--help"})


def options(words: Sequence[str]) -> tuple[dict[str, Any], list[str]] | None:
    """kvplan's own options by name, and the other words in their order; None for a line that is left to Typer.

    As with Typer, the last of repeated options counts, and a value may be a word of its own or follow ``=``.
    """
    found: dict[str, Any] = {}
    rest: list[str] = []
    at = iter(words)
    for word in at:
        name, equals, value = word.partition("=")
        if word in _LEFT_TO_TYPER or _is_cluster(word):
            return None
        if name in VALUES:
            given = value if equals else next(at, None)
            if given is None or (equals and name == "-o") or (not equals and given[:1] == "-"):
                return None
            found[VALUES[name]] = given
        elif name in SWITCHES:
            if equals:
                return None
            found[SWITCHES[name]] = True
        else:
            rest.append(word)
    return found, rest


def _is_cluster(word: str) -> bool:
    """Whether Typer would look into the letters of a word with one dash for its own -o and -h."""
    return word[:1] == "-" and word[:2] != "--" and word != "-o" and ("o" in word or "h" in word)


def run(words: Sequence[str]) -> int | None:
    """Run a `plan` line; None where it is left to Typer."""
    read = options(words)
    if read is None or not read[1]:
        return None
    found, rest = read
    from kvplan.commands import plan, terminal
    from kvplan.commands.deployment import Choices

    output = found.pop("output", None)
    view = terminal.view(output, found.pop("ascii", False))
    own = {key: found.pop(key) for key in Choices._fields if key in found}
    return terminal.show(plan.run(rest, Choices(**own), os.environ, view=view, **found), output)
