"""`kvplan plan --verbose` lists what of a line changes nothing, on stderr; the plan is the same."""

from __future__ import annotations

from kvplan.commands.deployment import Choices
from kvplan.commands.plan import run

LINE = "vllm serve Qwen/Qwen3-8B --kv-cache-memory-bytes 20G --port 8000 --api-key secret --cpu-offload-gb 3"


def outcome(line: str, verbose: bool, env: dict[str, str] | None = None):
    return run(line.split(), Choices("H200", offline=True), env or {}, verbose=verbose)


def test_flags_and_variables_that_are_ignored_are_listed_by_name_and_without_their_values():
    told = outcome(LINE, True, {"VLLM_LOGGING_LEVEL": "DEBUG", "HOME": "/"}).diagnostics
    assert told == (
        "ignored, for they do not touch the KV cache: --port, --api-key, VLLM_LOGGING_LEVEL.",
        "--cpu-offload-gb does not change the plan: weights only.",
    )


def test_nothing_ignored_is_said():
    assert outcome("Qwen/Qwen3-8B", True).diagnostics == ("every flag of the line was taken into the plan.",)


def test_the_plan_is_the_same_and_silent_without_it():
    loud, silent = outcome(LINE, True), outcome(LINE, False)
    assert loud.text == silent.text
    assert silent.diagnostics == ()
