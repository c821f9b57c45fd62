"""Estimates of what a start-up takes, against what start-ups took: numbers that their logs printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kvplan.__main__ import main
from kvplan.commands.deployment import Choices, request
from kvplan.estimates import GIB, HIGHEST, LOWEST, capture_sizes, estimate, graph_counts, graphs
from kvplan.inputs import read
from kvplan.pipeline import plan_read

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from measure_estimates import ALL, STARTUPS, measured, table  # noqa: E402


def startups():
    return [json.loads(line) for line in STARTUPS.read_text(encoding="utf-8").splitlines()]


def config(*words: str, gpu: str = "H100"):
    wanted = request(list(words), Choices(gpu=gpu, offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    return plan_read(wanted._replace(args=args), inputs).config


@pytest.mark.parametrize(
    ("model", "ranks", "activations", "outside"),
    [
        ("openai/gpt-oss-20b", 1, 7.38, 0.13),
        ("meta-llama/Llama-3.1-8B-Instruct", 1, 4.76, 0.13),
        ("Qwen/Qwen3-32B", 2, 5.64, 0.54),
    ],
)
def test_release_0_11_on_h100_took_what_is_estimated(model, ranks, activations, outside):
    """Three start-ups of 0.11 with --max-model-len 16000 printed both parts."""
    found = estimate(config(model, "-tp", str(ranks), "--max-model-len", "16000"), (0, 11))
    lines = {line.what: line.bytes / GIB for line in found.lines}
    assert lines["activations"] == pytest.approx(activations, rel=0.02)
    assert lines["outside torch"] == pytest.approx(outside, abs=0.01)


def test_release_0_9_on_an_a100_took_what_is_estimated():
    """Of 39.49 GiB x 0.9, a start-up of Qwen3-8B loaded 15.2683 GiB and left 18.69 GiB."""
    found = estimate(config("Qwen/Qwen3-8B", gpu="A100 40GB"), (0, 9))
    assert found.bytes / GIB == pytest.approx(39.49 * 0.9 - 15.2683 - 18.69, rel=0.05)


def test_a_gpu_that_shares_its_memory_with_the_cpu_is_not_estimated():
    assert estimate(config("Qwen/Qwen3-8B", gpu="GB10")) is None


def test_the_interval_lies_around_the_sum():
    found = estimate(config("Qwen/Qwen3-8B"))
    assert (found.least, found.most) == (round(found.bytes * LOWEST), round(found.bytes * HIGHEST))


def test_a_drafter_with_a_vocabulary_of_its_own_keeps_its_head():
    """32,000 rows of 4,096 bfloat16, half of them on each of two ranks."""
    spec = '{"method": "eagle3", "model": "AngelSlim/Qwen3-8B_eagle3", "num_speculative_tokens": 3}'
    found = estimate(config("Qwen/Qwen3-8B", "-tp", "2", "--speculative-config", spec))
    assert {line.what: line.bytes for line in found.lines}["drafter's head"] == 16_000 * 4_096 * 2


def test_eager_mode_captures_no_graphs():
    assert not any(line.what == "CUDA graphs" for line in estimate(config("Qwen/Qwen3-8B", "--enforce-eager")).lines)


def test_captured_batch_sizes_are_vllms_defaults():
    """[1, 2, 4], then steps of 8 up to 256 and of 16 up to twice max_num_seqs, at most 512."""
    sizes = capture_sizes(config("Qwen/Qwen3-8B", "--max-num-seqs", "1024"))
    assert sizes[:5] == [1, 2, 4, 8, 16]
    assert sizes[-3:] == [480, 496, 512]
    assert len(sizes) == 3 + 31 + 17
    assert capture_sizes(config("Qwen/Qwen3-8B", "--max-num-seqs", "8")) == [1, 2, 4, 8, 16]


def test_speculative_decodes_have_sizes_of_their_own():
    """Four tokens a request: 1, 2, 4, 8 and 10 requests, besides the usual sizes up to twice 40 tokens."""
    spec = '{"method": "eagle3", "model": "AngelSlim/Qwen3-8B_eagle3", "num_speculative_tokens": 3}'
    sizes = capture_sizes(config("Qwen/Qwen3-8B", "--max-num-seqs", "10", "--speculative-config", spec))
    assert sizes == [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80]


def test_full_graphs_are_captured_for_what_decodes_alone_can_be():
    """256 requests: 51 sizes up to 512, 35 of them up to 256; releases before 0.11 had piecewise graphs only."""
    given = config("Qwen/Qwen3-8B", "--max-num-seqs", "256")
    assert graph_counts(given) == (51, 35)
    assert graph_counts(given, (0, 10)) == (51, 0)
    assert graph_counts(config("Qwen/Qwen3-8B", "--enforce-eager")) == (0, 0)


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["-O0"], (0, 0)),
        (["-O1"], (51, 0)),
        (["-cc.cudagraph_mode=FULL"], (0, 51)),
        (["-cc.cudagraph_mode=FULL", "--attention-backend", "FLASHINFER"], (51, 35)),
        (["-cc.mode=0"], (0, 35)),
        (["--cudagraph-capture-sizes", "1", "2", "4", "512"], (4, 3)),
        (["--max-cudagraph-capture-size", "64"], (11, 11)),
        (["--enable-lora"], (102, 70)),
    ],
)
def test_graphs_follow_the_options_that_decide_them(words, counts):
    """Piecewise and full ones of 256 requests; FULL is of all sizes where the backend captures prefills too."""
    given = config("Qwen/Qwen3-8B", "--max-num-seqs", "256", *words)
    assert graph_counts(given) == counts
    lines = [line.what for line in estimate(given).lines]
    assert ("CUDA graphs" in lines) == (counts != (0, 0))


def test_gpt_oss_captures_up_to_1024():
    assert len(capture_sizes(config("openai/gpt-oss-20b"))) == 83


@pytest.mark.parametrize(
    ("model", "ranks", "activations", "graphed"),
    [
        ("Qwen/Qwen3-8B", 1, 2.21, 0.96),
        ("google/gemma-2-9b-it", 1, 3.65, 1.09),
        ("Qwen/Qwen2.5-72B-Instruct", 2, 2.29, 1.61),
        ("mistralai/Mixtral-8x7B-v0.1", 2, 1.21, 0.93),
    ],
)
def test_release_0_19_on_h100_took_what_is_estimated(model, ranks, activations, graphed):
    """Start-ups that no constant was taken from."""
    wanted = config(model, "-tp", str(ranks), "--max-model-len", "8192")
    lines = {line.what: line.bytes / GIB for line in estimate(wanted, (0, 19)).lines}
    assert lines["activations"] + lines.get("experts' workspace", 0) == pytest.approx(activations, rel=0.05)
    assert graphs(wanted, (0, 19)) / GIB == pytest.approx(graphed, rel=0.05)


def test_the_interval_holds_every_start_up_that_was_measured():
    """The numbers that public start-ups printed, of releases 0.9 to 0.31."""
    found = [pair for case in startups() for pair in measured(case) if pair.quantity == ALL]
    assert len(found) == 36
    for pair in found:
        assert pair.estimated * LOWEST <= pair.measured <= pair.estimated * HIGHEST, pair.case


def test_estimates_are_as_far_off_as_the_readme_says():
    """Its table is the one that the script prints."""
    lines = list(table([pair for case in startups() for pair in measured(case)]))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n".join(lines[: lines.index("")]) in text
    assert lines[-1] in text


def run(monkeypatch, capsys, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["kvplan", "plan", "Qwen/Qwen3-8B", "--gpu", "H200", "--offline", *words])
    with pytest.raises(SystemExit):
        main()
    return capsys.readouterr().out


def test_json_says_what_is_estimated_and_leaves_the_plan_without_a_budget(monkeypatch, capsys):
    found = json.loads(run(monkeypatch, capsys, "--format", "json", "--weights-bytes", "16GiB"))
    budget = found["budget"]
    assert budget["source"] == "estimated"
    assert budget["weights_source"] == "--weights-bytes"
    taken = sum(line["bytes"] for line in budget["lines"])
    assert budget["bytes"] == [budget["requested_bytes"] - 2**34 - taken]
    assert budget["low"][0] < budget["bytes"][0] < budget["high"][0]
    plain = json.loads(run(monkeypatch, capsys, "--format", "json"))
    assert {key: value for key, value in found.items() if key != "budget"} == plain


def test_json_says_when_the_rest_was_given(monkeypatch, capsys):
    found = json.loads(run(monkeypatch, capsys, "--format", "json", "--non-kv-memory-bytes", "4GiB"))
    budget = found["budget"]
    assert (budget["source"], budget["rest_bytes"], budget["lines"]) == ("given", 4 * GIB, [])
    assert budget["low"] == budget["bytes"] == budget["high"]
