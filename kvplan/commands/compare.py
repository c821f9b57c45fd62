"""`kvplan compare`: what each drafter costs, or how two saved plans differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.commands.deployment import Choices, one_of, positive, request
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.comparison import Comparison, compare
from kvplan.errors import KvplanError
from kvplan.pipeline import plan
from kvplan.report.style import VIEW, View

FORMATS = ("text", "json", "markdown", "csv")
MAXIMUM_LENGTHS = 64


def lengths(text: str | None) -> list[int | None]:
    """``1,3,7`` as numbers; one entry None where no length was given."""
    if text is None:
        return [None]
    parts = text.split(",")
    if len(parts) > MAXIMUM_LENGTHS:
        raise KvplanError(f"--num-speculative-tokens takes at most {MAXIMUM_LENGTHS} lengths, got {len(parts)}.")
    return [positive("--num-speculative-tokens", part.strip()) for part in parts]


def render(comparison: Comparison, format: str, view: View) -> str:
    """The comparison in one of FORMATS, ending in a newline."""
    if format == "json":
        from kvplan.report.compare_document import comparison_document
        from kvplan.report.document import to_json

        return to_json(comparison_document(comparison))
    if format == "markdown":
        from kvplan.report.compare_markdown import compare_markdown

        return compare_markdown(comparison)
    if format == "csv":
        from kvplan.report.csv import compare_csv

        return compare_csv(comparison)
    from kvplan.report.compare_text import compare_text

    return compare_text(comparison, view)


def saved(before: str, after: str, format: str, view: View) -> Outcome:
    """Two plans that `kvplan plan --format json` wrote, compared."""
    from kvplan.report.compare_document import compare_documents
    from kvplan.sources.jsonfile import read_object

    documents = [read_object(path, path) for path in (before, after)]
    return Outcome(render(compare_documents(documents[0], documents[1], (before, after)), format, view))


def run(
    words: Sequence[str],
    choices: Choices,
    env: Mapping[str, str],
    *,
    drafters: Sequence[str] = (),
    num_speculative_tokens: str | None = None,
    format: str = "text",
    view: View = VIEW,
) -> Outcome:
    """Plan without a drafter, then with each drafter and length; report the differences and their causes.

    Exit code 1 where one of the deployments does not fit.
    """
    one_of("--format", format, FORMATS)
    if len(words) == 2 and all(word.endswith(".json") for word in words):
        return saved(words[0], words[1], format, view)
    counts = lengths(num_speculative_tokens)
    with_options = request(words, choices, env)
    own = with_options.args.speculative_config
    if not drafters and choices.method is None and own is None:
        raise KvplanError("nothing to compare with; add --drafter X, --method mtp or --speculative-config.")
    bare = request(words, choices._replace(method=None), env)
    baseline = plan(bare._replace(args=bare.args._replace(speculative_config=None)))
    variants = [
        plan(request(words, choices, env, drafter=drafter, num_speculative_tokens=count))
        for drafter in drafters or (None,)
        for count in counts
    ]
    failed = any(result.plans[result.selected].error for result in (baseline, *variants))
    return Outcome(render(compare(baseline, variants), format, view), DOES_NOT_FIT if failed else FITS)
