"""Estimates of what a start-up takes, against what start-ups took: numbers that their logs printed."""

from __future__ import annotations

import json
import sys

import pytest

from kvplan.__main__ import main
from kvplan.commands.deployment import Choices, request
from kvplan.estimates import GIB, HIGHEST, LOWEST, capture_sizes, estimate, graphs
from kvplan.pipeline import plan_read, read


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


def test_graphs_grow_with_layers_and_sizes():
    small, large = config("Qwen/Qwen3-4B"), config("Qwen/Qwen3-32B")
    assert graphs(large) * 36 == graphs(small) * 64


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
