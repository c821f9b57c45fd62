"""With pipeline parallelism a block and a request are spread over the stages: whose bytes a number counts is said."""

from __future__ import annotations

import sys

import pytest

from kvplan.__main__ import main


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, *words: str) -> str:
    flags = ("zai-org/GLM-4.6", "--gpu", "H200", "-tp", "4", "--offline", *words)
    monkeypatch.setattr(sys, "argv", ["kvplan", command, *flags])
    with pytest.raises(SystemExit):
        main()
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("command", "words", "sentence"),
    [
        ("plan", (), "sizes of blocks and requests are sums over the 2 pipeline stages, of one rank of each"),
        ("plan", (), "at 202,752 tokens 17.79 GiB over the 2 pipeline stages:"),
        ("plan", (), "tokens a request blocks size, all stages"),
        ("plan", ("--format", "markdown"), "Sizes of blocks and requests are sums over the 2 pipeline stages, of one"),
        ("kernel-blocks", (), "a block is 1,507,328 bytes over the 2 pipeline stages in all"),
        ("kernel-blocks", (), "on one rank of each stage, and counted over the 2 pipeline stages"),
    ],
)
def test_sums_over_stages_are_called_so_and_only_there(monkeypatch, capsys, command, words, sentence):
    assert sentence in printed(monkeypatch, capsys, command, "-pp", "2", *words)
    assert "stage" not in printed(monkeypatch, capsys, command, *words)


def test_the_budget_of_each_stage_has_a_line(monkeypatch, capsys):
    text = printed(monkeypatch, capsys, "plan", "-pp", "2", "--non-kv-memory-bytes", "4GiB")
    assert "- 79.76 GiB weights per rank of stage 0 (derived from the configs) " in text
    assert "= 44.86 GiB for the KV cache of stage 0 = 39.8 GiB for the KV cache of stage 1" in text
    text = printed(monkeypatch, capsys, "plan", "-pp", "2")
    assert "= about 43.26 GiB for the KV cache of stage 0; 34.87 GiB to 46.06 GiB at x0.5 to x2.5 of these " in text
    assert "= about 38.21 GiB for the KV cache of stage 1; 29.82 GiB to 41.01 GiB at x0.5 to x2.5 of these " in text
