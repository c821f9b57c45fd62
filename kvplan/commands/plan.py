"""`kvplan plan`: what vLLM will do with one deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.commands.deployment import Choices, one_of, positive, request
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.pipeline import PlanRequest, plan
from kvplan.report.style import VIEW, View
from kvplan.result import Result

FORMATS = ("text", "json", "markdown", "csv")


def render(result: Result, format: str, view: View, wanted: PlanRequest | None = None) -> str:
    """The result in one of FORMATS, ending in a newline; with advice where it is told what was ``wanted``."""
    if format == "json":
        from kvplan.report.document import to_document, to_json

        return to_json(to_document(result))
    if format == "csv":
        from kvplan.report.csv import plan_csv

        return plan_csv(result)
    from kvplan.advice import advise

    advice = () if wanted is None else advise(wanted, result)
    if format == "markdown":
        from kvplan.report.markdown import plan_markdown

        return plan_markdown(result, advice)
    from kvplan.report.text import plan_text

    return plan_text(result, view, advice)


def run(
    words: Sequence[str],
    choices: Choices,
    env: Mapping[str, str],
    *,
    drafter: str | None = None,
    num_speculative_tokens: str | None = None,
    format: str = "text",
    view: View = VIEW,
) -> Outcome:
    """Plan and report. Exit code 1 where the plan that the engine would use does not fit or cannot be grouped."""
    one_of("--format", format, FORMATS)
    count = None if num_speculative_tokens is None else positive("--num-speculative-tokens", num_speculative_tokens)
    wanted = request(words, choices, env, drafter=drafter, num_speculative_tokens=count)
    result = plan(wanted)
    failed = result.plans[result.selected].error is not None
    return Outcome(render(result, format, view, wanted), DOES_NOT_FIT if failed else FITS)
