"""`kvplan fit`: the smallest tensor and pipeline parallelism on one node that starts and serves a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan import gpus
from kvplan.commands.deployment import Choices, one_of, positive, request
from kvplan.commands.outcome import DOES_NOT_FIT, FITS, Outcome
from kvplan.errors import KvplanError
from kvplan.report.style import VIEW, View

FORMATS = ("text", "json")
_PARALLEL = ("-tp", "--tensor-parallel-size", "-pp", "--pipeline-parallel-size")


def run(
    words: Sequence[str],
    choices: Choices,
    env: Mapping[str, str],
    *,
    concurrency: str = "1",
    gpus_per_node: str = "8",
    drafter: str | None = None,
    num_speculative_tokens: str | None = None,
    format: str = "text",
    view: View = VIEW,
) -> Outcome:
    """Try one GPU, then two, and so on. Exit code 1 where nothing on the node serves the load.

    KvplanError for wrong usage, and for a deployment that cannot be planned however it is split.
    """
    one_of("--format", format, FORMATS)
    wanted, most = positive("--concurrency", concurrency), positive("--gpus-per-node", gpus_per_node)
    count = None if num_speculative_tokens is None else positive("--num-speculative-tokens", num_speculative_tokens)
    if choices.gpu is None:
        raise KvplanError("--gpus is missing: name the node's GPU, such as --gpus H200.")
    if gpus.find(choices.gpu, "--gpus").usable_memory_bytes is None:
        raise KvplanError(
            f"--gpus {choices.gpu}: how much memory CUDA reports of it is not known; name one that `kvplan gpus` lists."
        )
    from kvplan.fitting import SEARCHED, fitting
    from kvplan.inputs import read

    given = next((word for word in words if word.partition("=")[0].replace("_", "-") in _PARALLEL), None)
    if given is not None:
        raise KvplanError(SEARCHED.format(word=given))
    asked = request(words, choices, env, drafter=drafter, num_speculative_tokens=count)
    args, inputs = read(asked.args, offline=asked.offline)
    found = fitting(asked._replace(args=args), inputs, concurrency=wanted, gpus_per_node=most)
    if format == "json":
        from kvplan.report.document import to_json
        from kvplan.report.fit_text import fit_document

        text = to_json(fit_document(found))
    else:
        from kvplan.report.fit_text import fit_text

        text = fit_text(found, view)
    return Outcome(text, DOES_NOT_FIT if found.best is None else FITS)
