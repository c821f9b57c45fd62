"""`kvplan layers`: the cache spec of every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.commands.deployment import Choices, one_of, positive, request
from kvplan.commands.outcome import Outcome
from kvplan.pipeline import plan
from kvplan.report.style import VIEW, View

FORMATS = ("text", "json", "markdown", "csv")


def run(
    words: Sequence[str],
    choices: Choices,
    env: Mapping[str, str],
    *,
    drafter: str | None = None,
    num_speculative_tokens: str | None = None,
    explain: bool = False,
    format: str = "text",
    view: View = VIEW,
) -> Outcome:
    """The per-layer table, folded by runs of equal layers; ``explain`` adds what decided each row."""
    one_of("--format", format, FORMATS)
    count = None if num_speculative_tokens is None else positive("--num-speculative-tokens", num_speculative_tokens)
    result = plan(request(words, choices, env, drafter=drafter, num_speculative_tokens=count))
    if format == "json":
        from kvplan.report.document import to_document, to_json

        document = to_document(result)
        keys = ("schema_version", "model", "drafter", "assumed", "layers")
        return Outcome(to_json({key: document[key] for key in keys}))
    if format == "markdown":
        from kvplan.report.layers_text import layers_markdown

        return Outcome(layers_markdown(result, explain=explain))
    if format == "csv":
        from kvplan.report.csv import layers_csv

        return Outcome(layers_csv(result))
    from kvplan.report.layers_text import layers_text

    return Outcome(layers_text(result, view, explain=explain))
