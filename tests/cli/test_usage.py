"""Wrong usage is one sentence on stderr that says what to write instead, with exit code 2, whoever finds it wrong."""

from __future__ import annotations

import sys

import pytest

from kvplan.__main__ import main

OFFLINE = ["Qwen/Qwen3-8B", "--offline"]


def stderr_of(monkeypatch, capsys, words: list[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["kvplan", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr()
    assert (ended.value.code, out.out) == (2, "")
    return out.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["check", "--ofline"], "--ofline is not an option of kvplan check; did you mean --offline?"),
        (["gpus", "--zz"], "--zz is not an option of kvplan gpus; `kvplan gpus --help` says what it takes."),
        (
            ["check"],
            "kvplan check needs FILE.yaml (deployments with their limits); `kvplan check --help` says what it takes.",
        ),
        (
            ["verify"],
            "kvplan verify needs LOG (a start-up log, or - for stdin); `kvplan verify --help` says what it takes.",
        ),
        (["plann"], "plann is not a command of kvplan; did you mean plan?"),
        (["zzz"], "zzz is not a command of kvplan; `kvplan --help` says what it takes."),
        (
            ["models", "Qwen"],
            "kvplan models: got unexpected extra argument (Qwen); `kvplan models --help` says what it takes.",
        ),
        (["plan", *OFFLINE, "--gpu"], "--gpu needs a value; `kvplan plan --help` says what it takes."),
        (["gpus", "--format"], "--format needs a value; `kvplan gpus --help` says what it takes."),
        (["plan", "X", "--offline=1"], "--offline takes no value; `kvplan plan --help` says what it takes."),
    ],
)
def test_what_click_finds(monkeypatch, capsys, words: list[str], sentence: str) -> None:
    assert stderr_of(monkeypatch, capsys, words) == f"kvplan: {sentence}\n"


@pytest.mark.parametrize(
    ("words", "close"),
    [
        (["plan", *OFFLINE, "--frmat", "json"], "--format"),
        (["plan", *OFFLINE, "--gpus", "H200"], "--gpu"),
        (["layers", *OFFLINE, "--gpus=H200"], "--gpu"),
        (["compare", *OFFLINE, "--draftr", "x"], "--drafter"),
        (["kernel-blocks", *OFFLINE, "--layout-cost-chek", "padding"], "--layout-cost-check"),
    ],
)
def test_an_option_that_is_like_one_of_kvplan_s_own(monkeypatch, capsys, words: list[str], close: str) -> None:
    flag = " ".join(words[3:])
    assert stderr_of(monkeypatch, capsys, words) == (
        f"kvplan: {flag} is unknown to vLLM 0.33.0, nor an option of kvplan {words[0]}; did you mean {close}?\n"
    )


def test_an_option_that_is_more_like_one_of_vllm_s(monkeypatch, capsys) -> None:
    assert stderr_of(monkeypatch, capsys, ["plan", *OFFLINE, "--tensor-paralel-size", "2"]) == (
        "kvplan: --tensor-paralel-size 2 is unknown to vLLM 0.33.0; did you mean --tensor-parallel-size?\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["layers", *OFFLINE, "--engine", "vllm-next", "--ascii"],
        ["kernel-blocks", *OFFLINE, "--layout-cost-check", "worst-case", "--layout-agreement", "intersect"],
        ["fit", *OFFLINE, "--gpu", "H200"],
    ],
)
def test_commands_take_what_plan_takes(monkeypatch, capsys, words: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kvplan", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code or 0, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize(
    ("words", "head"),
    [
        (
            ["gpus"],
            "name,capability,total_memory_bytes,device_name,num_compute_units,usable_memory_bytes\nA100 40GB,8.0,",
        ),
        (["kernel-blocks", *OFFLINE, "--gpu", "H200"], "group,layers,backend,block_size,kernel_block_size,"),
    ],
)
def test_what_is_a_table_can_be_csv(monkeypatch, capsys, words: list[str], head: str) -> None:
    monkeypatch.setattr(sys, "argv", ["kvplan", *words, "--format", "csv"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith(head)


@pytest.mark.parametrize("columns", ["60", "80"])
def test_no_line_of_the_gpus_is_cut_or_too_wide(monkeypatch, capsys, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "argv", ["kvplan", "gpus"])
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines()[1:])) <= int(columns)
    assert "NVIDIA RTX PRO 6000 Blackwell Workstation Edition" in " ".join(out.split())
