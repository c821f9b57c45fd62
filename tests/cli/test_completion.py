"""Shells complete commands, options and the names that they take; a plan line too, which is read without Typer."""

from __future__ import annotations

import subprocess
import sys

import pytest


def completed(line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    env = {"_KVPLAN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    argv = [sys.executable, "-m", "kvplan"]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("kvplan pl", ["plan"]),
        ("kvplan plan --dra", ["--drafter"]),
        ("kvplan plan Qwen/Qwen3-8B --gpu H2", ["H200"]),
        ("kvplan plan --format js", ["json"]),
        ("kvplan check --format ju", ["junit"]),
        ("kvplan check f.yaml --against vllm-n", ["vllm-next"]),
        ("kvplan plan --kv-cache-layout BL", ["BLHNC", "BLNHC"]),
        ("kvplan plan Qwen/Qwen3-8", ["Qwen/Qwen3-8B"]),
        ("kvplan plan m --tensor-par", ["--tensor-parallel-size"]),
        ("kvplan compare -tp 2 m --max-num-s", ["--max-num-scheduled-tokens", "--max-num-seqs"]),
        ("kvplan layers m --no-enable-pre", ["--no-enable-prefix-caching"]),
        ("kvplan fit m --min-kv", ["--min-kv-cache-group-layers"]),
        ("kvplan kernel-blocks m --host", []),
        ("kvplan plan m --attention-backend TRITON_A", ["TRITON_ATTN", "TRITON_ATTN_DIFFKV"]),
        ("kvplan plan m --kv-cache-dtype fp8_e5", ["fp8_e5m2"]),
        ("kvplan plan m --dtype bf", ["bfloat16"]),
        ("kvplan compare m --drafter z-lab/gpt", ["z-lab/gpt-oss-20b-DFlash"]),
    ],
)
def test_a_shell_is_offered_the_names_that_a_command_takes(line, offered):
    assert completed(line) == offered


def test_the_words_of_a_plan_are_left_to_typer_while_a_shell_completes():
    env = {"_KVPLAN_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "kvplan plan --off"}
    argv = [sys.executable, "-m", "kvplan", "plan", "Qwen/Qwen3-8B", "--offline"]
    printed = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    assert '"--offline":"Never use the network."' in printed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_kvplan(shell, tmp_path):
    def run(option: str) -> str:
        argv = [sys.executable, "-m", "kvplan", option, shell]
        env = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # the shell is an argument
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout

    script = run("--show-completion")
    assert f"_KVPLAN_COMPLETE=complete_{shell}" in script
    assert f"{shell} completion installed in" in run("--install-completion")
    assert any("_KVPLAN_COMPLETE" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())
