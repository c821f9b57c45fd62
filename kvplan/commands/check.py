"""`kvplan check`: the deployments of a file against their limits and their recorded baseline."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kvplan import gpus
from kvplan.check import lock as locks
from kvplan.check.case import Case, Reader
from kvplan.check.figures import Figures
from kvplan.check.fleet import Deployment, read_fleet
from kvplan.check.nodes import read
from kvplan.check.outputs import FORMATS, render
from kvplan.check.run import ERROR, HOLDS, Checked, check
from kvplan.commands.deployment import in_place_of, one_of
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.errors import KvplanError
from kvplan.files import write_whole
from kvplan.gpus import Gpu
from kvplan.pipeline import DEFAULT_GPU
from kvplan.report.numbers import gib, plural
from kvplan.report.style import VIEW, View
from kvplan.selection import ENGINES

CANNOT_BE_JUDGED = 2
_BAR_FROM = 20
"""Deployments from which on a terminal shows a progress bar."""


def run(
    path: str,
    *,
    update: bool = False,
    engine: str | None = None,
    against: str | None = None,
    offline: bool = False,
    format: str = "text",
    view: View = VIEW,
    output: str | None = None,
) -> Outcome:
    """Check the file, or record its plans in the lock beside it (``update``).

    Exit code 0 where everything holds, 1 where something fails, 2 where a deployment cannot be planned exactly.
    KvplanError for a file or a lock that cannot be used; with ``update`` nothing is written then. ``output``: where the
    report goes, which must not be the lock.
    """
    one_of("--format", format, FORMATS)
    for flag, value in (("--engine", engine), ("--against", against)):
        if value is not None:
            one_of(flag, value, ENGINES)
    if update and against is not None:
        raise KvplanError("--update and --against do not go together; record the plans of one engine.")
    if output is not None and os.path.realpath(output) == os.path.realpath(locks.beside(path)):
        raise KvplanError(f"{output}: is the lock, which --update alone writes; give -o another file.")
    deployments = read_fleet(read(path), path)
    if engine is not None:
        deployments = [each._replace(engine=engine) for each in deployments]
    reader = Reader(offline=offline)
    beside = locks.beside(path)
    known = None if update or against is not None else locks.load(beside)
    with _progress(len(deployments)) as done:
        found = check(deployments, reader, lock=known, against=against, done=done)
    notes = _stale(known, deployments) + _releases(deployments, against) + _beyond(found)
    if update and all(each.status != ERROR for each in found):
        write_whole(beside, locks.text(_planned(found)))
        notes += [f"{beside} holds the plans of {plural(len(found), 'deployment')}."]
    elif update:
        notes += [f"{beside} was not written, for not every deployment can be planned."]
    return Outcome(render(found, format, path, view, notes), _code(found))


def schema() -> str:
    """The JSON schema of a file of deployments, for editors."""
    from importlib.resources import files

    return (files("kvplan.check") / "fleet.schema.json").read_text(encoding="utf-8")


def _code(found: Sequence[Checked]) -> int:
    if any(each.status == ERROR for each in found):
        return CANNOT_BE_JUDGED
    return FITS if all(each.status == HOLDS for each in found) else DOES_NOT_FIT


def _planned(found: Sequence[Checked]) -> dict[str, tuple[Case, Figures]]:
    return {
        each.deployment.name: (each.case, each.figures)
        for each in found
        if each.case is not None and each.figures is not None
    }


def _stale(known: locks.Lock | None, deployments: Sequence[Deployment]) -> list[str]:
    gone = sorted(set() if known is None else set(known.deployments) - {each.name for each in deployments})
    if not gone:
        return []
    return [f"the lock holds {', '.join(gone[:5])}, which the file does not list; --update drops what is not listed."]


def _releases(deployments: Sequence[Deployment], against: str | None) -> list[str]:
    """Images of another release than the rules that their deployments are planned by, a note for each tag."""
    found: dict[str, list[str]] = {}
    for each in deployments:
        if each.other_release is not None:
            words = in_place_of(against or each.engine, each.other_release)
            found.setdefault(words, []).append(each.name)
    return [f"{', '.join(names[:5])}{', ...' if names[5:] else ''}: by {words}." for words, names in found.items()]


def _beyond(found: Sequence[Checked]) -> list[str]:
    """Deployments whose given budget is more than their GPUs have, a note for each GPU: vLLM does not check it."""
    beyond: dict[Gpu, list[str]] = {}
    for each in found:
        if each.case is None or each.figures is None:
            continue
        gpu = gpus.find(each.case.gpu or DEFAULT_GPU)
        stages = each.case.args.pipeline_parallel_size
        pool = (each.figures.num_blocks or 0) * (each.figures.bytes_per_block or 0)
        if gpu.usable_memory_bytes is not None and pool > stages * gpu.usable_memory_bytes:
            beyond.setdefault(gpu, []).append(each.deployment.name)
    return [
        f"{', '.join(names[:5])}{', ...' if names[5:] else ''}: the KV cache alone is more than the "
        f"{gib(gpu.usable_memory_bytes or 0)} that one {gpu.name} has for CUDA; vLLM takes such a budget, and runs out "
        "of memory as it allocates it."
        for gpu, names in beyond.items()
    ]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on a terminal, for long files; nothing elsewhere."""
    if total < _BAR_FROM or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("planning", total=total)
        yield lambda: bar.advance(task)
