"""`kvplan args`: what was read of a serve line, a script or a manifest."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kvplan.commands.outcome import Outcome
from kvplan.errors import KvplanError
from kvplan.report.document import to_json
from kvplan.serve import read_argv, read_file, to_document


def run(words: Sequence[str]) -> Outcome:
    """The deployments of one file, or of a command given as words, as a JSON document."""
    if not words:
        raise KvplanError("nothing to read; give a file, or a command after `--`.")
    is_file = len(words) == 1 and (" " not in words[0] or os.path.exists(words[0]))
    deployments = read_file(words[0]) if is_file else read_argv(list(words))
    return Outcome(to_json(to_document(deployments)))
