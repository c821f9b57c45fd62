"""`kvplan plan`: what vLLM will do with one deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kvplan.commands.deployment import Choices, ignored, one_of, positive, request
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.pipeline import plan_read, read
from kvplan.report.style import VIEW, View
from kvplan.result import Result

if TYPE_CHECKING:
    from kvplan.advice import Advice

FORMATS = ("text", "json", "markdown", "csv")


def render(result: Result, format: str, view: View, advice: Callable[[], Advice | None]) -> str:
    """The result in one of FORMATS, ending in a newline; ``advice`` is asked for where the format has room for it."""
    if format == "json":
        from kvplan.report.document import to_document, to_json

        return to_json(to_document(result))
    if format == "csv":
        from kvplan.report.csv import plan_csv

        return plan_csv(result)
    if format == "markdown":
        from kvplan.report.markdown import plan_markdown

        return plan_markdown(result, advice())
    from kvplan.report.text import plan_text

    return plan_text(result, view, advice())


def run(
    words: Sequence[str],
    choices: Choices,
    env: Mapping[str, str],
    *,
    drafter: str | None = None,
    num_speculative_tokens: str | None = None,
    format: str = "text",
    view: View = VIEW,
    verbose: bool = False,
) -> Outcome:
    """Plan and report; ``verbose``: with what was ignored of the line.

    Exit code 1 where the plan that the engine would use does not fit or cannot be grouped.
    """
    one_of("--format", format, FORMATS)
    count = None if num_speculative_tokens is None else positive("--num-speculative-tokens", num_speculative_tokens)
    wanted = request(words, choices, env, drafter=drafter, num_speculative_tokens=count)
    args, inputs = read(wanted.args, offline=wanted.offline)
    wanted = wanted._replace(args=args)
    result = plan_read(wanted, inputs)
    failed = result.plans[result.selected].error is not None

    def advice() -> Advice | None:
        from kvplan.advice import advise

        return advise(wanted, result, lambda changed: plan_read(changed, inputs, only_used=True))

    told = ignored(words, choices, env) if verbose else ()
    return Outcome(render(result, format, view, advice), DOES_NOT_FIT if failed else FITS, told)
