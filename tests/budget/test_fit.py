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
    assert out.startswith("Nothing on one node of 8 L4 serves 1 request of 4,096 tokens at once.\n")


def test_the_text_names_the_flags_and_why_others_do_not_do(monkeypatch, capsys):
    words = ("Qwen/Qwen3-32B", "--gpus", "RTX 4090", "--max-model-len", "8192", "--concurrency", "2")
    code, out, _ = fit(monkeypatch, capsys, *words)
    assert code == 0
    assert out.startswith("4 x RTX 4090 serve 2 requests of 8,192 tokens at once: -tp 4 -pp 1 holds ")
    assert "-tp 1 -pp 1" in out
    assert "  -tp 1 -pp 1, -tp 2 -pp 1, -tp 1 -pp 2: the weights alone take more than\n" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["Qwen/Qwen3-8B"], "--gpus is missing"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "-tp", "2"], "-tp is what kvplan fit looks for"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "--concurrency", "0"], "--concurrency '0' must be a positive"),
        (["Qwen/Qwen3-8B", "--gpus", "A100"], "--gpus A100 is not a GPU that kvplan knows; did you mean A100 40GB or"),
        (["Qwen/Qwen3-8B", "--gpus", "H200,B200"], "--gpus H200,B200 is not a GPU that kvplan knows"),
        (["Qwen/Qwen3-8B", "--gpus", "8.6:48"], "--gpus 8.6:48: how much memory CUDA reports of it is not known; name"),
        (["nope/nope", "--gpus", "H200"], "nope/nope: not a path, not bundled"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "--max-model-len", "10000000"], "--max-model-len 10000000 is more than"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "--max-model-len", "auto"], "--max-model-len auto shortens the requests"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "--kv-cache-memory-bytes", "60GiB"], "leave it out of kvplan fit"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "--kv-cache-memory-bytes", "6GiB,6GiB"], "leave it out of kvplan fit"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "--num-gpu-blocks-override", "9"], "leave it out of kvplan fit"),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "-pcp", "2"], "--prefill-context-parallel-size 2 is not tried"),
        (["--gpus", "H200", "--", "vllm", "serve", "Qwen/Qwen3-8B", "-pp=2"], "-pp=2 is what kvplan fit looks for"),
        (
            ["Qwen/Qwen3-8B", "--gpus", "H200", "--drafter", "z-lab/Qwen3.6-35B-A3B-DFlash"],
            "choose a drafter that was made for this target",
        ),
        (["Qwen/Qwen3-8B", "--gpus", "H200", "-dp", "16"], "--data-parallel-size 16 takes a GPU for each engine"),
    ],
)
def test_wrong_usage_is_one_sentence(monkeypatch, capsys, words, sentence):
    code, out, err = fit(monkeypatch, capsys, *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_an_upper_bound_is_no_answer_that_it_serves(monkeypatch, capsys):
    """What a start-up takes of memory shared with the CPU is not estimated; weights that are too many are sure."""
    code, out, err = fit(monkeypatch, capsys, "Qwen/Qwen3-8B", "--gpus", "GB10", "--concurrency", "4")
    assert (code, out) == (2, "")
    assert "-tp 1 -pp 1 holds no more than 17 at once; ask kvplan plan with -tp 1 -pp 1 and --non-kv-memory-" in err
    code, found = document(monkeypatch, capsys, "Qwen/Qwen3-235B-A22B", "--gpus", "GB10", "--gpus-per-node", "1")
    assert (code, found["fits"], found["tried"][0]["requests_at_least"]) == (1, None, None)


def test_the_draft_length_that_is_assumed_is_said(monkeypatch, capsys):
    words = ("Qwen/Qwen3-8B", "--gpus", "H200", "--drafter", "z-lab/Qwen3-8B-DFlash-b16")
    _, out, _ = fit(monkeypatch, capsys, *words)
    assert out.startswith("1 x H200 serves 1 request of 40,960 tokens at once (assumed: 15 speculative\ntokens, the ")
    assert "Qwen/Qwen3-8B with z-lab/Qwen3-8B-DFlash-b16 (dflash, 15 speculative tokens)" in out
    _, found = document(monkeypatch, capsys, *words)
    assert (found["schema_version"], found["engine"], found["model"]["id"]) == (1, "vllm-0.33.0", "Qwen/Qwen3-8B")
    assert (found["drafter"]["method"], found["drafter"]["num_speculative_tokens"]) == ("dflash", 15)
    assert len(found["assumed"]) == 1
    assert found["options"]["max_num_seqs"] == 1024
    assert "tensor_parallel_size" not in found["options"]


def test_data_parallel_engines_need_gpus_and_serve_requests_each(monkeypatch, capsys):
    """One H200 holds 19 requests, so two engines hold 38; they are two GPUs whatever their tensor parallelism."""
    words = ("Qwen/Qwen3-8B", "--gpus", "H200", "-dp", "2", "--concurrency", "39")
    code, found = document(monkeypatch, capsys, *words)
    assert code == 0
    assert [(row["gpus"], row["requests"]) for row in found["tried"]] == [(2, 38), (4, 82), (4, 84)]
    assert found["options"]["data_parallel_size"] == 2
    _, out, _ = fit(monkeypatch, capsys, *words)
    assert out.startswith("4 x H200 serve 39 requests of 40,960 tokens at once: -tp 2 -pp 1 -dp 2 holds 82,\n")


def test_sequences_that_are_fewer_than_the_load_are_the_reason(monkeypatch, capsys):
    words = ("Qwen/Qwen3-8B", "--gpus", "H200", "--concurrency", "32")
    code, out, _ = fit(monkeypatch, capsys, *words, "--max-num-seqs", "8")
    assert code == 1
    assert out.startswith(
        "Nothing on one node of 8 H200 serves 32 requests of 40,960 tokens at once:\n"
        "--max-num-seqs 8 runs no more than 8 of them.\n"
    )
    assert "raise it to 32\n" in out
    _, out, _ = fit(monkeypatch, capsys, *words)
    assert "  - --max-num-seqs 1024 is vLLM's default here, and a start-up takes memory for\n" in out


def test_a_narrow_table_keeps_the_flags_and_the_requests(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "45")
    _, out, _ = fit(monkeypatch, capsys, "Qwen/Qwen3-8B", "--gpus", "H200")
    assert "\n     1  -tp 1 -pp 1  110.92 GiB        19        19\n" in out
