"""The whole check: every deployment planned, held against its limits and its baseline, with the causes of a loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvplan import __version__
from kvplan.check.case import Case, Reader
from kvplan.check.causes import Cause, causes
from kvplan.check.figures import Figures, measure
from kvplan.check.fleet import Deployment
from kvplan.check.limits import Failure, failures, no_start_words
from kvplan.check.lock import Lock
from kvplan.errors import KvplanError
from kvplan.report.numbers import number
from kvplan.units import as_flag, as_written

HOLDS = "holds"
FAILS = "fails"
ERROR = "error"


class Checked(NamedTuple):
    """One deployment after the check."""

    deployment: Deployment
    status: str
    """holds | fails | error (it cannot be planned, or has nothing to compare)."""
    figures: Figures | None = None
    """With the least memory for the KV cache where that is estimated."""
    baseline: dict[str, Any] | None = None
    """The figures that it is compared with."""
    failures: tuple[Failure, ...] = ()
    causes: tuple[Cause, ...] = ()
    error: str | None = None
    case: Case | None = None
    """What ``figures`` and limits are of, its engine rules among it."""
    baseline_engine: str | None = None
    """The engine rules that ``baseline`` was planned with."""

    @property
    def engines(self) -> tuple[str, str] | None:
        """The engine rules of the figures and, where they differ, of the baseline; else None."""
        if self.case is None or self.baseline_engine in (None, self.case.engine):
            return None
        return self.case.engine, str(self.baseline_engine)

    @property
    def loss(self) -> float | None:
        """Tokens lost against the baseline, as a fraction; None where there is nothing to compare."""
        if self.baseline is None or self.figures is None:
            return None
        return lost(self.baseline["tokens"], self.figures.tokens, starts=self.figures.starts)


def lost(before: int | None, after: int | None, *, starts: bool) -> float | None:
    """The fraction of ``before`` tokens that is gone; everything, where the deployment does not start any more."""
    if not before:
        return None
    if not starts:
        return 1.0
    return None if after is None else 1 - after / before


def check(
    deployments: Sequence[Deployment],
    reader: Reader,
    *,
    lock: Lock | None = None,
    against: str | None = None,
    done: Callable[[], None] = lambda: None,
) -> list[Checked]:
    """Check every deployment.

    ``lock``: the baseline. ``against``: engine rules that take the place of the deployment's own. Figures, limits and
    the verdict are then theirs, and the plan under the deployment's own rules is the baseline. Neither: limits alone.
    ``done`` is called after each.
    """
    out = []
    for deployment in deployments:
        try:
            if against is None:
                out.append(_checked(deployment, reader, lock))
            else:
                out.append(_upgraded(deployment, reader, against))
        except KvplanError as error:
            out.append(Checked(deployment, ERROR, error=str(error)))
        done()
    return out


def _upgraded(deployment: Deployment, reader: Reader, engine: str) -> Checked:
    """The deployment under other engine rules, against itself under its own."""
    old = reader.case(deployment)
    case = old._replace(engine=engine)
    try:
        baseline = measured(reader, old).recorded()
    except KvplanError as error:
        raise KvplanError(f"with {old.engine}: {error}") from None
    try:
        figures, failed = _judged(deployment, case, reader)
    except KvplanError as error:
        raise KvplanError(f"with {engine}: {error}") from None
    failed = [failure._replace(sentence=f"with {engine}, {failure.sentence}") for failure in failed]
    return _compared(deployment, case, figures, baseline, old, failed, reader, __version__)


def _judged(deployment: Deployment, case: Case, reader: Reader) -> tuple[Figures, list[Failure]]:
    """The figures of a case, and the deployment's limits that do not hold with them."""
    planned = reader.plan(case)
    figures = measure(planned.result, planned.most)
    return figures, failures(case, planned, figures, deployment.limits)


def _checked(deployment: Deployment, reader: Reader, lock: Lock | None) -> Checked:
    case = reader.case(deployment)
    figures, failed = _judged(deployment, case, reader)
    if lock is None:
        return Checked(deployment, FAILS if failed else HOLDS, figures, failures=tuple(failed), case=case)
    if deployment.name not in lock.deployments:
        why = f"{deployment.name} is not in the lock; run `kvplan check FILE --update` and commit it."
        failed.append(Failure("baseline", None, None, why, deployment.line))
        return Checked(deployment, FAILS, figures, failures=tuple(failed), case=case)
    entry = lock.deployments[deployment.name]
    old = lock.case(deployment.name)
    return _compared(deployment, case, figures, entry.figures, old, failed, reader, lock.kvplan_version)


def measured(reader: Reader, case: Case) -> Figures:
    """The figures of a case. Raises as `Reader.plan` does."""
    planned = reader.plan(case)
    return measure(planned.result, planned.most)


def _compared(
    deployment: Deployment,
    case: Case,
    figures: Figures,
    baseline: dict[str, Any],
    old: Case,
    failed: list[Failure],
    reader: Reader,
    version: str,
) -> Checked:
    loss = lost(baseline["tokens"], figures.tokens, starts=figures.starts)
    if loss is None or loss <= deployment.tolerance:
        status = FAILS if failed else HOLDS
        return Checked(deployment, status, figures, baseline, tuple(failed), case=case, baseline_engine=old.engine)
    found = _causes(old, case, baseline["tokens"], reader, version)
    why = told(loss, figures, baseline, found)
    if not figures.starts and all(failure.limit != "must_start" for failure in failed):
        why = f"{why[:-1]} ({no_start_words(case, figures.error or '').rstrip('.')})."
    failed.insert(0, Failure("capacity_loss", loss, deployment.tolerance, why, 0))
    return Checked(deployment, FAILS, figures, baseline, tuple(failed), tuple(found), None, case, old.engine)


def _causes(old: Case, new: Case, before: int, reader: Reader, version: str) -> list[Cause]:
    """The changes of the inputs, and what kvplan's own rules changed for the old inputs since they were recorded."""

    def tokens(case: Case) -> int | None:
        return measured(reader, case).tokens

    try:
        base = tokens(old)
    except KvplanError:
        base = None
    rules = [] if base == before else [_rules(before, base, version)]
    return [*rules, *causes(old, new, base or before, tokens)]


def _rules(before: int, now: int | None, version: str) -> Cause:
    what = "kvplan" if version != __version__ else "kvplan's rules (same version)"
    return Cause(what, version, __version__, None if now is None else 1 - now / before)


def told(loss: float, figures: Figures, baseline: dict[str, Any], found: Sequence[Cause]) -> str:
    """The loss in one sentence, its causes with it, the most costly first."""
    if figures.starts:
        head = f"{number(figures.tokens or 0)} tokens instead of {number(baseline['tokens'])} ({-loss * 100:+.1f} %)"
    else:
        head = f"it does not start any more, before {number(baseline['tokens'])} tokens"
    paid = [cause for cause in found if cause.share is None or cause.share > 0] or list(found)
    whole = len(found) == 1 or (len(paid) == 1 and paid[0].share is not None and abs(paid[0].share - loss) < 5e-4)
    why = cause_words(paid[0], alone=False) if whole else "; ".join(map(cause_words, paid[:4]))
    more = f"; {len(paid) - 4} more" if len(paid) > 4 else ""
    return f"{head}: {why or 'no input changed'}{more}."


def cause_words(cause: Cause, *, alone: bool = True) -> str:
    """``--speculative-config num_speculative_tokens 7 instead of 3 (-12.0 % alone)``; ``alone``: with the share."""
    shown = _SIZES.get(cause.what, str)
    before, after = _shown(cause.before, shown), _shown(cause.after, shown)
    if cause.after is None:
        text = f"{cause.what} is gone, was {before}"
    elif cause.before is None:
        text = f"{cause.what} {after} is new"
    else:
        text = f"{cause.what} {after} instead of {before}"
    if not alone:
        return text
    share = "does not start alone" if cause.share is None else f"{-cause.share * 100:+.1f} % alone"
    return f"{text} ({share})"


_SIZES: dict[str, Callable[[Any], str]] = {
    "kv_cache_memory": as_written,
    "non_kv_memory": as_written,
    "--kv-cache-memory-bytes": as_flag,
}
"""Causes whose values are bytes, and how the user wrote them."""


def _shown(value: Any, shown: Callable[[Any], str] = str) -> str:
    if isinstance(value, (list, tuple)):
        text = ",".join(map(shown, value))
    else:
        text = json.dumps(value) if isinstance(value, dict) else shown(value) if type(value) is int else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
