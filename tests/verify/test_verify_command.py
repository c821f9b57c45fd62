"""`kvplan verify` as a user meets it: streams, exit codes, documents, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from start_ups import read, start_up

from kvplan.logs import DOCUMENT_KEYS
from kvplan.verify.deployment import quantised_base
from kvplan.verify.judge import Wanted, judge
from kvplan.verify.report import verify_document, verify_text

AGREES = start_up("0.9.2", "Qwen/Qwen3-8B", length=40960, gib=18.69, tokens=136080, concurrency="3.32", blocks=8505)
DIFFERS = start_up("0.31.0", "Qwen/Qwen3-8B", length=40960, gib=18.69, tokens=150000, concurrency="3.66")


def kvplan(*words: str, log: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "kvplan", *words], input=log, capture_output=True, env=environment, check=False
    )


def document(*words: str, log: str) -> tuple[int, dict[str, Any]]:
    done = kvplan("verify", "-", "--format", "json", "--offline", *words, log=log.encode())
    return done.returncode, json.loads(done.stdout)


def test_a_log_on_stdin_that_agrees():
    done = kvplan("verify", "-", "--offline", log=AGREES.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        "Everything found agrees: 3 of 3 lines.\n"
        "  model      Qwen/Qwen3-8B\n"
        "  version    0.9.2\n"
        "  rules      vLLM 0.9.2: release 0.9.2\n"
        "             Tokens are blocks // groups x the smallest block size of the\n"
        "             groups, of one group the configured one.\n"
        "  KV memory  18.69 GiB: every number of bytes that prints so is allowed\n"
        "  plan       groups 1, bytes of a block 2,359,296, blocks of a request 2,560\n"
        "\n"
        "                             log     plan\n"
        "  blocks                   8,505    8,505  agrees\n"
        "  KV cache size, tokens  136,080  136,080  agrees\n"
        "  maximum concurrency       3.32     3.32  agrees\n"
        "\n"
        "The log does not name its GPU; it is planned on H100 SXM, with which everything\n"
        "  agrees (--gpu names another).\n"
    )


def test_a_number_that_no_memory_gives_differs_with_its_cause():
    code, found = document(log=DIFFERS)
    assert code == 1
    assert [(line["what"], line["plan"], line["agrees"]) for line in found["lines"]] == [
        ("kv_cache_size_tokens", 136096, False),
        ("max_concurrency", 3.32, False),
    ]
    assert found["first_cause"] == (
        "The tokens differ (150,000 in the log, 136,096 in the plan with 8,506 blocks of 2,359,296 bytes in 1 group "
        "and 2,560 blocks a request): no memory that rounds to the printed GiB gives the log's number."
    )


def test_the_document_has_the_keys_that_are_promised():
    code, found = document(log=AGREES)
    assert code == 0
    assert list(found["read"]) == list(DOCUMENT_KEYS)
    assert found["read"]["kv_cache_size_tokens"] == 136080
    assert found["read"]["attention_block_size"] is None
    assert found["lines"][0] == {"what": "num_gpu_blocks", "log": 8505, "plan": 8505, "agrees": True}
    assert (found["first_cause"], found["refusal"]) == (None, None)
    assert found["plan"]["bytes_per_block"] == [2359296]
    assert found["engine"]["release"] == "0.9.2"
    assert found["engine"]["rules"][0]["source"] == ("v1/core/kv_cache_utils.py _get_kv_cache_config_uniform_page_size")


def test_one_value_of_the_memory_must_give_all_numbers():
    """8505 blocks give 136,080 tokens; 8504 and 8506 are possible too, but not beside those tokens."""
    near = AGREES.replace("num_gpu_blocks is: 8505", "num_gpu_blocks is: 8506")
    code, found = document(log=near)
    assert code == 1
    assert [line["agrees"] for line in found["lines"]].count(False) == 1


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("size: 136,080", "size: 136,096", "num_gpu_blocks"),
        ("request: 3.32x", "request: 3.99x", "max_concurrency"),
        ("size: 136,080", "size: 999,984", "kv_cache_size_tokens"),
    ],
)
def test_the_first_cause_is_of_the_first_line_that_differs(old: str, new: str, what: str):
    code, found = document(log=AGREES.replace(old, new))
    assert code == 1
    first = next(line["what"] for line in found["lines"] if not line["agrees"])
    assert first in (what, "kv_cache_size_tokens")
    assert found["first_cause"].endswith(".")


@pytest.mark.parametrize(
    ("words", "log", "sentence"),
    [
        ((), AGREES.replace("0.9.2", "0.34.0"), "vLLM 0.34.0 is not a version whose rules were verified (0.9.0 to "
         "0.33.0); name the release it follows with --assume-engine."),
        ((), AGREES.replace("Qwen/Qwen3-8B", "no/such-model"), "no/such-model: not a path, not bundled and not in the "
         "Hugging Face cache; `kvplan models` lists what is bundled."),
        ((), AGREES.replace("Qwen/Qwen3-8B", "/srv/nothing/here"), "The log's model is the path /srv/nothing/here, "
         "which is not here; name its config with --model."),
        ((), AGREES.replace("Qwen/Qwen3-8B", "D:\\\\Models\\\\X"), "The log's model is the path D:\\Models\\X, which "
         "is not here; name its config with --model."),
        ((), "INFO 01-01 00:00:00 [x.py:1] GPU KV cache size: 136,080 tokens\n", "The log does not say which vLLM "
         "printed it; name the release with --assume-engine."),
        (("--assume-engine", "0.9.2"), "INFO 01-01 00:00:00 [x.py:1] GPU KV cache size: 136,080 tokens\n", "The log "
         "does not name the model; name its config with --model."),
        (("--assume-engine", "1.0"), AGREES, "--assume-engine 1.0 is not a release whose rules were verified: 0.9.0 to "
         "0.33.0."),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_read_all_the_same(words: tuple[str, ...], log: str, sentence: str):
    code, found = document(*words, log=log)
    assert (code, found["plan"], found["refusal"]) == (2, None, sentence)
    assert found["read"]["kv_cache_size_tokens"] == 136080


def test_assume_engine_stands_in_for_a_version_that_was_not_verified():
    code, found = document("--assume-engine", "0.9.2", log=AGREES.replace("0.9.2", "0.34.0"))
    assert (code, found["engine"]["basis"]) == (0, "taken as 0.9.2 by --assume-engine")


def test_a_directory_of_another_machine_is_the_bundled_model_of_its_name():
    code, found = document(log=AGREES.replace("Qwen/Qwen3-8B", "/data/models/Qwen3-8B"))
    assert code == 0
    assert found["notes"][0] == (
        "The log's model is the path /data/models/Qwen3-8B; it is planned as the bundled model of that name."
    )
    cached = "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/abc"
    assert document(log=AGREES.replace("Qwen/Qwen3-8B", cached))[0] == 0


def test_a_config_of_another_architecture_is_not_taken():
    log = AGREES.replace("Qwen/Qwen3-8B", "/x/Qwen3-8B") + (
        "(APIServer pid=1) INFO 06-02 11:09:49 [model.py:617] Resolved architecture: LlamaForCausalLM\n"
    )
    code, found = document(log=log)
    assert code == 2
    assert found["refusal"] == (
        "The log's model is a LlamaForCausalLM, and Qwen/Qwen3-8B is a Qwen3ForCausalLM; name the right config with "
        "--model."
    )


def test_parallel_sizes_come_from_the_ranks_where_no_argument_tells():
    ranks = "".join(
        f"(Worker_TP{rank} pid={rank}) INFO 06-02 11:10:12 [gpu_worker.py:1] Available KV cache memory: 9.35 GiB\n"
        for rank in range(2)
    )
    verdict = judge(
        read(start_up("0.31.0", "Qwen/Qwen3-8B", length=40960) + ranks
             + "(EngineCore pid=7) INFO 06-02 [k.py:1] GPU KV cache size: 136,160 tokens\n"),
        Wanted(offline=True),
    )  # fmt: skip
    assert verdict.result is not None
    assert verdict.result.config.tensor_parallel_size == 2
    assert "The log's ranks tell --tensor-parallel-size 2." in verdict.notes
    assert verdict.exit_code == 0


def test_output_goes_to_a_file_whole(tmp_path: Path):
    target = tmp_path / "verdict.json"
    log = tmp_path / "log"
    log.write_text(AGREES)
    done = kvplan("verify", str(log), "--format", "json", "-o", str(target), "--offline")
    assert (done.returncode, done.stdout) == (0, b"")
    assert json.loads(target.read_text())["first_cause"] is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere.log",), "nowhere.log: cannot be read (No such file or directory)."),
        (("/",), "/: cannot be read (Is a directory)."),
        (("-", "--format", "yaml"), "--format 'yaml' is not known; choose one of text, json, csv."),
        (("-",), "-: holds nothing of a vLLM start-up; give what `vllm serve` printed."),
    ],
)
def test_wrong_usage_is_one_sentence(words: tuple[str, ...], sentence: str):
    done = kvplan("verify", *words, log=b"nothing of a server\n")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"kvplan: {sentence}\n")


def test_plan_does_not_load_the_reader_of_logs():
    code = (
        "import sys; sys.argv = ['kvplan', 'plan', 'Qwen/Qwen3-8B', '--offline', '-o', sys.argv[1]]\n"
        "from kvplan.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('kvplan.logs', 'kvplan.verify'))])"
    )
    done = subprocess.run([sys.executable, "-c", code, os.devnull], capture_output=True, text=True, check=False)
    assert "kvplan.verify" not in done.stdout
    assert "kvplan.logs" not in done.stdout


def test_a_long_log_streams_through_in_constant_memory(tmp_path: Path):
    log = tmp_path / "log"
    noise = (
        '(APIServer pid=1) INFO:     127.0.0.1:5{0} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
        "(EngineCore pid=7) DEBUG 06-02 11:10:12 [scheduler.py:1] step {0} of a server that runs all day\n"
    )
    with log.open("w") as file:
        file.write(AGREES)
        for i in range(300_000):
            file.write(noise.replace("{0}", f"{i:04}"))
    assert log.stat().st_size > 50_000_000
    code = (
        "import sys\n"
        "from kvplan.commands.verify import run\n"
        "outcome = run(sys.argv[1], {}, offline=True)\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(outcome.exit_code, peak.split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True)
    exit_code, kib = map(int, done.stdout.split())
    assert exit_code == 0
    assert kib < 120_000


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(AGREES)), st.integers(0, len(AGREES)), st.binary(max_size=40))
def test_a_log_in_pieces_is_never_a_traceback(cut: int, start: int, noise: bytes):
    text = AGREES[start:] + noise.decode("latin-1") + AGREES[:cut]
    verdict = judge(read(text), Wanted(offline=True))
    assert verdict.exit_code in (0, 1, 2)
    assert (verdict.exit_code == 2) == (verdict.refusal is not None)
    verify_document(verdict)
    assert verify_text(verdict).endswith("\n")


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["max_model_len", "tensor_parallel_size", "block_size", "max_num_batched_tokens", "kv_cache_dtype",
                     "speculative_config", "hf_overrides", "max_num_seqs", "dtype", "attention_backend"]),
    st.one_of(st.integers(-5, 2**70), st.text(max_size=6), st.booleans(), st.floats(allow_nan=False), st.none(),
              st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)),
)  # fmt: skip
def test_options_of_any_kind_are_never_a_traceback(name: str, value: object):
    options = {name: value} if name != "max_model_len" else {}
    length = value if name == "max_model_len" and isinstance(value, int) else 40960
    text = start_up("0.31.0", "Qwen/Qwen3-8B", length=length, gib=18.69, tokens=1, concurrency="1.00", **options)
    verdict = judge(read(text), Wanted(offline=True))
    assert verdict.exit_code in (0, 1, 2)
    verify_document(verdict)


def test_a_quantised_copy_is_confirmed_by_its_base_but_never_accused():
    copy = AGREES.replace("Qwen/Qwen3-8B", "someone/Qwen3-8B-AWQ-Int4")
    code, found = document(log=copy)
    assert code == 0
    assert found["notes"][0] == (
        "The config of someone/Qwen3-8B-AWQ-Int4 is not here; it is planned as Qwen/Qwen3-8B, which it is named after."
    )
    code, found = document(log=copy.replace("size: 136,080", "size: 999,984"))
    assert (code, found["plan"]) == (2, None)
    assert found["refusal"].startswith("someone/Qwen3-8B-AWQ-Int4: not a path, not bundled")


@pytest.mark.parametrize(
    ("model", "base"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct"),
        ("D:\\Models\\Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct"),
        ("x/Qwen3.6-35B-A3B-FP8-4.75bit", "Qwen/Qwen3.6-35B-A3B-FP8"),
        ("x/Qwen3-8B-Base", None),
        ("x/Qwen3-80B-AWQ", None),
        ("", None),
    ],
)
def test_the_base_that_a_copy_is_named_after(model: str, base: str | None):
    known = ["Qwen/Qwen3-8B", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.6-35B-A3B-FP8"]
    assert quantised_base(model, known) == base
