"""A budget that the GPU cannot have: vLLM takes it as given, so it is planned, and said."""

from __future__ import annotations

import json
import sys

import pytest

from kvplan.__main__ import main
from kvplan.errors import KvplanError
from tests.plan.test_budget import loaded
from tests.plan.test_estimated_decision import ran

NOTE = (
    "the KV cache of 60.0 GiB on one rank is more than the 22.03 GiB that one L4 has for CUDA, even without weights: "
    "vLLM does not check what it is given, and runs out of memory as it allocates it"
)


def test_a_budget_beyond_the_gpu_is_no_error_and_does_not_read_as_a_fit(monkeypatch, capsys):
    words = ("meta-llama/Llama-3.1-70B-Instruct", "--gpu", "L4", "--kv-cache-memory-bytes", "60GiB")
    code, sentence = ran(monkeypatch, capsys, *words)
    assert code == 0
    assert sentence.startswith(
        "It would fit on one L4 with 60.0 GiB for the KV cache, if the L4 had more than its 22.03 GiB: vLLM 0.33.0 "
    )
    code, document = ran(monkeypatch, capsys, *words, "--format", "json")
    assert (code, json.loads(document)["plans"]["main"]["notes"]) == (0, [NOTE])


def test_a_budget_within_the_gpu_has_no_such_note():
    for words in (["--kv-cache-memory-bytes", "22GiB"], ["--num-gpu-blocks-override", "100"]):
        result, _ = loaded("Qwen/Qwen3-8B", "--max-model-len", "1024", *words, gpu="L4")
        assert result.plans["main"].notes == ()


def test_blocks_of_an_override_count_as_a_budget_on_the_stage_that_holds_most():
    """36 layers, so 18 of 64 KiB a block on each stage."""
    flags = ("-pp", "2", "--num-gpu-blocks-override", "40000")
    result, _ = loaded("Qwen/Qwen3-8B", *flags, gpu="L4")
    assert result.plans["main"].pool_bytes == 40000 * 18 * 16 * 2 * 8 * 128 * 2
    assert result.plans["main"].notes[0].startswith("the KV cache of 43.95 GiB on one rank is more than the 22.03 GiB")


def test_weights_that_are_too_many_are_said_whatever_the_blocks(monkeypatch, capsys):
    words = ("Qwen/Qwen3-235B-A22B", "--gpu", "L4", "--num-gpu-blocks-override", "10000")
    code, sentence = ran(monkeypatch, capsys, *words)
    assert (code, sentence[:56]) == (1, "It does not fit on one L4: the weights take 437.91 GiB o")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--kv-cache-memory-bytes", "-1"], "--kv-cache-memory-bytes -1 must not be negative."),
        (["-pp", "2", "--kv-cache-memory-bytes", "1GiB,-1"], "--kv-cache-memory-bytes -1 must not be negative."),
        (["--num-gpu-blocks-override", "-1"], "--num-gpu-blocks-override -1 must not be negative."),
        (
            ["--kv-cache-memory-bytes", str(2**63)],
            f"--kv-cache-memory-bytes {2**63} must not be more than {2**63 - 1:,}, which no tensor can hold.",
        ),
        (
            ["--num-gpu-blocks-override", "1" + "0" * 320],
            "--num-gpu-blocks-override of more than 40 digits must not be more than 9,223,372,036,854,775,807",
        ),
    ],
)
def test_a_size_that_no_memory_has_is_one_sentence(words, sentence):
    with pytest.raises(KvplanError) as refused:
        loaded("Qwen/Qwen3-8B", *words)
    assert str(refused.value).startswith(sentence)


def test_the_null_block_explains_a_budget_as_large_as_the_request():
    """40 GiB hold 8,192 blocks of 5 MiB, which is what the request needs; one of them is the null block."""
    words = ("meta-llama/Llama-3.1-70B-Instruct", "--kv-cache-memory-bytes", "40GiB")
    error = loaded(*words)[0].plans["main"].error
    assert error is not None
    assert (
        "needs 40.0 GiB of KV cache and 40.0 GiB are available besides the null block (5,242,880 bytes less)" in error
    )


def test_numbers_of_requests_are_named_with_their_longest_context(monkeypatch, capsys):
    words = ("Qwen/Qwen3-8B", "--gpu", "H200", "--kv-cache-memory-bytes", "22GiB", "--max-num-seqs", "16")
    monkeypatch.setattr(sys, "argv", ["kvplan", "plan", *words, "--offline"])
    with pytest.raises(SystemExit):
        main()
    line = "\n  at once fit 4 requests of up to 40,032 tokens each, or 16 of up to 10,000\n"
    assert line in capsys.readouterr().out
