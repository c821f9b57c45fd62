"""`kvplan args`: what was read of a serve line, a script or a manifest."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kvplan.commands.outcome import Outcome
from kvplan.errors import KvplanError
from kvplan.report.document import to_json
from kvplan.serve import read_argv, read_file, read_text, to_document
from kvplan.serve.yamlfile import MAX_BYTES


def run(words: Sequence[str]) -> Outcome:
    """The deployments of one file (``-``: stdin), or of a command given as words, as a JSON document."""
    if not words:
        raise KvplanError("nothing to read; give a file, - for stdin, or a command after `--`.")
    if list(words) == ["-"]:
        return Outcome(to_json(to_document(read_text(_stdin(), "stdin", Path()))))
    is_file = len(words) == 1 and (" " not in words[0] or os.path.exists(words[0]))
    deployments = read_file(words[0]) if is_file else read_argv(list(words))
    return Outcome(to_json(to_document(deployments)))


def _stdin() -> str:
    """The text on stdin, one byte more at most than is read of a file."""
    return sys.stdin.buffer.read(MAX_BYTES + 1).decode("utf-8-sig", errors="replace")
