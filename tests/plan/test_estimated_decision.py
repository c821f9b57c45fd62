"""The first sentence where no budget is given: what the GPU's own memory holds, as far as that is known."""

from __future__ import annotations

import sys

import pytest

from kvplan.__main__ import main
from kvplan.budget import Budget, Sized, Weights
from kvplan.estimates import Estimate, Line
from kvplan.report.decision import decide
from tests.plan.test_budget import GIB, loaded


def ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["kvplan", "plan", *words, "--offline"])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    return int(stopped.value.code or 0), printed


def test_weights_that_no_gpu_holds_do_not_fit(monkeypatch, capsys):
    code, sentence = ran(monkeypatch, capsys, "Qwen/Qwen3-235B-A22B", "--gpu", "L40S")
    assert code == 1
    assert sentence == (
        "It does not fit on one L40S: the weights take 437.91 GiB of a GPU, of which vLLM may use 40.84 GiB "
        "(--gpu-memory-utilization 0.92); use more GPUs (-tp, -pp), larger ones or a quantised checkpoint."
    )


def test_a_gpu_that_is_assumed_rules_nothing_out(monkeypatch, capsys):
    code, sentence = ran(monkeypatch, capsys, "Qwen/Qwen3-235B-A22B")
    assert (code, sentence[:60]) == (0, "It does not fit on one B200 (assumed: GPU B200, as none was ")


def test_json_judges_no_budget_that_nobody_gave(monkeypatch, capsys):
    code, document = ran(monkeypatch, capsys, "Qwen/Qwen3-235B-A22B", "--gpu", "L40S", "--format", "json")
    assert code == 0
    assert '"budget"' not in document


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_an_estimated_budget_is_a_range(monkeypatch, capsys, format):
    code, sentence = ran(monkeypatch, capsys, "Qwen/Qwen3-8B", "--gpu", "H200", "--format", format)
    assert code == 0
    assert sentence.strip("*").startswith("It should fit on one H200, with an estimated 1")
    assert " GiB for the KV cache: vLLM 0.33.0 then serves " in sentence


def sized(taken: int, *words: str) -> str:
    """The sentence for a GPU whose cache keeps ``taken`` bytes less an estimate of 1 GiB, of which x0.5 to x2.5."""
    from kvplan.commands.deployment import Choices, request
    from kvplan.pipeline import with_memory

    result, _ = loaded("Qwen/Qwen3-8B", *words)
    found = Budget(taken, 1.0, (Weights(0),), "given", None, Estimate((Line("all", GIB, "x"),)))
    wanted = request(["Qwen/Qwen3-8B", *words], Choices(gpu="H200", offline=True), {})
    plans = tuple(with_memory(wanted, result, memory).plans["main"] for memory in found.interval)
    return decide(result, Sized(found, plans)).sentence


def test_between_the_ends_it_may_not_fit():
    """One request of 40,960 tokens takes 5.625 GiB."""
    assert sized(7 * GIB).startswith(
        "It may not fit on one H200, with an estimated 4.5 GiB to 6.5 GiB for the KV cache: "
    )
    assert sized(6 * GIB).startswith(
        "It does not fit on one H200, with an estimated 3.5 GiB to 5.5 GiB for the KV cache: "
    )
    assert sized(9 * GIB).startswith(
        "It should fit on one H200, with an estimated 6.5 GiB to 8.5 GiB for the KV cache: vLLM 0.33.0 then serves "
        "1.16 to 1.51 requests of 40,960 tokens at once"
    )
