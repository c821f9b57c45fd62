"""`kvplan plan`: what vLLM will do with one deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kvplan.commands.deployment import Choices, ignored, one_of, positive, request
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.errors import DoesNotStart, KvplanError, Refused
from kvplan.inputs import Inputs, read
from kvplan.pipeline import PlanRequest, plan_read, with_memory
from kvplan.report.decision import decide
from kvplan.report.style import VIEW, View
from kvplan.result import Result
from kvplan.units import human_readable_bytes

if TYPE_CHECKING:
    from kvplan.advice import Advice
    from kvplan.budget import Budget, Sized

FORMATS = ("text", "json", "markdown", "csv")


def render(
    result: Result, format: str, view: View, advice: Callable[[], Advice | None], sized: Sized | None = None
) -> str:
    """The result in one of FORMATS, ending in a newline; ``advice`` is asked for where the format has room for it."""
    if format == "json":
        from kvplan.report.document import to_document, to_json

        document = to_document(result)
        return to_json(document if sized is None else {**document, "budget": sized.budget.document()})
    if format == "csv":
        from kvplan.report.csv import plan_csv

        return plan_csv(result)
    if format == "markdown":
        from kvplan.report.markdown import plan_markdown

        return plan_markdown(result, advice(), sized)
    from kvplan.report.text import plan_text

    return plan_text(result, view, advice(), sized)


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
    weights_bytes: str | None = None,
    non_kv_memory_bytes: str | None = None,
    from_log: str | None = None,
) -> Outcome:
    """Plan and report; ``verbose``: with what was ignored of the line.

    Without a KV budget it comes from the GPU: exactly, where ``non_kv_memory_bytes`` or ``from_log`` says what a
    start-up takes besides the weights; else text and Markdown have an estimate with its interval. Exit code 1 where
    the plan that the engine would use does not fit, even with the most that is left of a given GPU, or cannot be
    grouped.
    """
    one_of("--format", format, FORMATS)
    count = None if num_speculative_tokens is None else positive("--num-speculative-tokens", num_speculative_tokens)
    wanted = request(words, choices, env, drafter=drafter, num_speculative_tokens=count)
    args, inputs = read(wanted.args, offline=wanted.offline)
    wanted = wanted._replace(args=args)
    result = plan_read(wanted, inputs)
    given = {"--weights-bytes": weights_bytes, "--non-kv-memory-bytes": non_kv_memory_bytes, "--from-log": from_log}
    sized = None
    if any(value is not None for value in given.values()) or format in ("text", "markdown"):
        sized = _sized(wanted, result, _budget(result, inputs, given))
    if sized is not None and sized.budget.rest is not None:
        wanted = wanted._replace(available_memory_bytes=sized.budget.memory)
        result = with_memory(wanted, result, sized.budget.memory)

    def advice() -> Advice | None:
        from kvplan.advice import advise

        return advise(wanted, result, lambda changed: plan_read(changed, inputs, only_used=True))

    told = ignored(words, choices, env) if verbose else ()
    judged = sized if wanted.gpu else None  # a GPU that is only assumed rules nothing out
    failed = decide(result, judged).outcome == "refused"
    return Outcome(render(result, format, view, advice, sized), DOES_NOT_FIT if failed else FITS, told)


def _sized(wanted: PlanRequest, result: Result, found: Budget | None) -> Sized | None:
    """The budget with the plans that its ends and its middle make."""
    if found is None:
        return None
    from kvplan.budget import Sized

    if found.rest is not None:
        return Sized(found)
    name = result.selected
    used = result._replace(plans={name: result.plans[name]})
    return Sized(found, tuple(with_memory(wanted, used, memory).plans[name] for memory in found.interval))


def _budget(result: Result, inputs: Inputs, given: Mapping[str, str | None]) -> Budget | None:
    """The budget of the GPU; None where one was given, or where nothing was asked and it cannot be derived."""
    asked = [flag for flag, value in given.items() if value is not None]
    if result.available_memory_bytes is not None:
        if asked:
            raise KvplanError(f"{asked[0]} and --kv-cache-memory-bytes both say what the KV cache gets; keep one.")
        return None
    known = result.config.gpu.usable_memory_bytes is not None and any(plan.groups for plan in result.plans.values())
    if not asked and not known:
        return None
    from kvplan.budget import Rest, budget, rest_of_log

    rest, weights = None, given["--weights-bytes"]
    if given["--from-log"] is not None and given["--non-kv-memory-bytes"] is not None:
        raise KvplanError("--from-log and --non-kv-memory-bytes say the same thing; keep one of them.")
    if given["--from-log"] is not None:
        rest = rest_of_log(given["--from-log"], result.config.gpu.usable_memory_bytes)
    elif given["--non-kv-memory-bytes"] is not None:
        flag = "--non-kv-memory-bytes"
        rest = Rest(_size(given[flag] or "", flag), flag)
    try:
        size = None if weights is None else _size(weights, "--weights-bytes")
        return budget(result.config, inputs.target, inputs.drafter, rest, size)
    except (Refused, DoesNotStart):
        if asked:
            raise
        return None


def _size(text: str, flag: str) -> int:
    """A size in bytes; KvplanError for a negative one."""
    found = human_readable_bytes(text, flag)
    if found < 0:
        raise KvplanError(f"{flag} {text!r} must not be negative.")
    return found
