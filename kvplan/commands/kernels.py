"""`kvplan kernel-blocks`: what attention kernels read of a manager block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.commands.deployment import Choices, one_of, positive, request
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.kernel_blocks import kernel_blocks
from kvplan.pipeline import plan
from kvplan.report.kernel_text import kernel_document, kernel_text
from kvplan.report.style import VIEW, View

FORMATS = ("text", "json", "csv")


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
    """The kernel blocks of the plan that the engine uses; exit code 1 where the worker could not bind it."""
    one_of("--format", format, FORMATS)
    count = None if num_speculative_tokens is None else positive("--num-speculative-tokens", num_speculative_tokens)
    result = plan(request(words, choices, env, drafter=drafter, num_speculative_tokens=count))
    bound = kernel_blocks(result.plans[result.selected], result.layers)
    code = FITS if bound.error is None else DOES_NOT_FIT
    if format == "json":
        from kvplan.report.document import to_json

        return Outcome(to_json(kernel_document(result, bound)), code)
    if format == "csv":
        from kvplan.report.csv import kernel_csv

        return Outcome(kernel_csv(kernel_document(result, bound)["attention_groups"]), code)
    return Outcome(kernel_text(result, bound, view), code)
