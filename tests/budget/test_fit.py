"""`kvplan fit`: the smallest parallelism on one node that serves a load."""

from __future__ import annotations

import json
import sys

import pytest

from kvplan.__main__ import main


def fit(monkeypatch, capsys, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["kvplan", "fit", *words, "--offline"])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr()
    return int(ended.value.code or 0), out.out, out.err


def document(monkeypatch, capsys, *words: str):
    code, out, _ = fit(monkeypatch, capsys, *words, "--format", "json")
    return code, json.loads(out)


def test_a_model_that_one_gpu_serves_needs_one(monkeypatch, capsys):
    words = ("Qwen/Qwen3-8B", "--gpus", "H200", "--max-model-len", "32768", "--concurrency", "8")
    code, found = document(monkeypatch, capsys, *words)
    assert code == 0
    assert (found["fits"]["gpus"], found["max_model_len"], found["concurrency"]) == (1, 32768, 8)
    assert found["fits"]["requests"] >= found["fits"]["requests_at_least"] >= 8
    assert len(found["tried"]) == 1


def test_more_gpus_are_tried_until_the_load_is_served(monkeypatch, capsys):
    """Qwen3-235B is 438 GiB in bfloat16: four H200 hold it with ten requests, so sixteen need eight."""
    words = ("Qwen/Qwen3-235B-A22B", "--gpus", "H200", "--max-model-len", "32768", "--concurrency", "16")
    code, found = document(monkeypatch, capsys, *words)
    assert code == 0
    assert (found["fits"]["tensor_parallel_size"], found["fits"]["pipeline_parallel_size"]) == (8, 1)
    fewer = [row for row in found["tried"] if row["gpus"] < 8]
    assert len(fewer) == 6
    assert all(row["requests"] < 16 for row in fewer)


def test_what_no_node_serves_is_exit_code_1(monkeypatch, capsys):
    words = ("Qwen/Qwen3-235B-A22B", "--gpus", "L4", "--max-model-len", "4096")
    code, out, _ = fit(monkeypatch, capsys, *words)
    assert code == 1
    assert out.startswith("Nothing on one node of L4 serves 1 request of 4,096 tokens at once.\n")


def test_the_text_names_the_flags_and_why_others_do_not_do(monkeypatch, capsys):
    words = ("Qwen/Qwen3-32B", "--gpus", "RTX 4090", "--max-model-len", "8192", "--concurrency", "2")
    code, out, _ = fit(monkeypatch, capsys, *words)
    assert code == 0
    assert out.startswith("4 x RTX 4090 serve 2 requests of 8,192 tokens at once: -tp 4 -pp 1 holds ")
    assert "-tp 1 -pp 1" in out
    assert "-tp 2 -pp 1, -tp 1 -pp 2: one request of the model length does" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["Qwen/Qwen3-8B"], "--gpus is missing"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "-tp", "2"], "-tp is what kvplan fit looks for"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "--concurrency", "0"], "--concurrency '0' must be a positive"),
    ],
)
def test_wrong_usage_is_one_sentence(monkeypatch, capsys, words, sentence):
    code, out, err = fit(monkeypatch, capsys, *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
