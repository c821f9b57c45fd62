"""`kvplan verify`: does a real start-up agree with the plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import IO

from kvplan.commands.deployment import one_of
from kvplan.commands.outcome import Outcome
from kvplan.errors import KvplanError
from kvplan.files import open_read
from kvplan.logs import LogReading, open_log, read_log
from kvplan.report.style import VIEW, View
from kvplan.selection import ENGINES
from kvplan.verify.judge import Wanted, judge
from kvplan.verify.report import verify_document, verify_text

FORMATS = ("text", "json", "csv")


def read(path: str) -> LogReading:
    """The reading of a file, or of stdin for ``-``. KvplanError where it cannot be read or is no start-up log."""
    try:
        if path == "-":
            reading = _read(sys.stdin.buffer)
        else:
            with open_read(path) as stream:
                reading = _read(stream)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KvplanError(f"{path}: cannot be read ({reason}).") from None
    if not reading.startups:
        raise KvplanError(f"{path}: holds nothing of a vLLM start-up; give what `vllm serve` printed.")
    return reading


def _read(stream: IO[bytes]) -> LogReading:
    return read_log(open_log(stream))


def run(
    path: str,
    env: Mapping[str, str],
    *,
    assume_engine: str | None = None,
    model: str | None = None,
    drafter: str | None = None,
    gpu: str | None = None,
    engine: str = ENGINES[0],
    offline: bool = False,
    format: str = "text",
    view: View = VIEW,
) -> Outcome:
    """Read the log, plan its deployment, compare. Exit code 0 agrees, 1 differs, 2 cannot be judged."""
    one_of("--format", format, FORMATS)
    if gpu is not None:
        from kvplan import gpus

        gpus.find(gpu)
    wanted = Wanted(
        assume_engine=assume_engine,
        model=model,
        drafter=drafter,
        gpu=gpu,
        offline=offline,
        engine=one_of("--engine", engine, ENGINES),
        env={name: value for name, value in env.items() if name.startswith("VLLM_")},
    )
    verdict = judge(read(path), wanted)
    if format == "json":
        from kvplan.report.document import to_json

        return Outcome(to_json(verify_document(verdict)), verdict.exit_code)
    if format == "csv":
        from kvplan.report.csv import lines_csv

        return Outcome(lines_csv(verdict.lines), verdict.exit_code)
    return Outcome(verify_text(verdict, view), verdict.exit_code)
