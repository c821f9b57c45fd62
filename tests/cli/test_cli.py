"""The command line: exit codes, data on stdout alone, one sentence on stderr, files written whole."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from kvplan.__main__ import main

QWEN = ["Qwen/Qwen3-8B", "--gpu", "H200", "--offline", "--max-model-len", "8192"]
BUDGET = ["--kv-cache-memory-bytes", "20GiB"]


@pytest.fixture
def kvplan(monkeypatch, capsys):
    """Run a line; its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvplan", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capsys.readouterr()
        return ended.value.code or 0, out.out, out.err

    return run


def test_a_plan_that_fits(kvplan):
    code, out, err = kvplan("plan", *QWEN, *BUDGET, "--format", "json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["plans"]["main"]["kv_cache_size_tokens"] == 145632 // 8192 * 8192 + 145632 % 8192
    assert (document["schema_version"], document["selected"], document["layout"]["name"]) == (1, "main", "LBNHC")


def test_a_plan_that_does_not_fit_is_printed_all_the_same(kvplan):
    code, out, err = kvplan("plan", *QWEN, "--kv-cache-memory-bytes", "1GiB", "--format", "json")
    main_plan = json.loads(out)["plans"]["main"]
    assert (code, err) == (1, "")
    assert main_plan["error"].endswith(".")
    assert (main_plan["num_groups"], main_plan["num_blocks"]) == (1, None)


@pytest.mark.parametrize("command", ["plan", "layers", "kernel-blocks"])
def test_a_model_and_a_gpu_that_were_not_given_are_called_assumed(kvplan, command):
    code, out, err = kvplan(command, "--offline", "--", "vllm", "serve")
    assert (code, err) == (0, "")
    told = "(assumed: Qwen/Qwen3-0.6B, vLLM's default, as no model was given; GPU B200, as none was given (--gpu))"
    assert told in " ".join(out.split())


def test_an_empty_gpu_is_not_a_gpu_that_was_left_out(kvplan):
    code, out, err = kvplan("plan", "Qwen/Qwen3-8B", "--offline", "--gpu", "")
    assert (code, out) == (2, "")
    assert err.startswith("kvplan: --gpu '' is not a GPU that kvplan knows; did you mean A100 40GB, ")


def test_kernel_blocks_name_their_drafter(kvplan):
    drafter = ("--drafter", "AngelSlim/Qwen3-8B_eagle3", "--num-speculative-tokens", "3")
    _, out, _ = kvplan("kernel-blocks", *QWEN, *drafter)
    head = "Qwen/Qwen3-8B with AngelSlim/Qwen3-8B_eagle3 (eagle3) under vLLM 0.33.0 on one\nH200, main grouping"
    assert out.startswith(f"{head}, layout LBNHC.")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["plan"], "no model is named"),
        (["plan", "no/such-model", "--offline"], "no/such-model: not a path, not bundled"),
        (["plan", *QWEN, "--gpu", "H900"], "--gpu H900 is not a GPU that kvplan knows"),
        (["plan", *QWEN, "--format", "yaml"], "--format 'yaml' is not known; choose one of text, json"),
        (["plan", *QWEN, "--engine", "vllm-1"], "--engine 'vllm-1' is not known"),
        (["plan", *QWEN, "--kv-cache-memory-bytes", "lots"], "--kv-cache-memory-bytes 'lots' is not a number"),
        (["plan", *QWEN, "--tensor-paralel-size", "2"], "--tensor-parallel-size"),
        (["plan", *QWEN, "--max-model-len", "0"], "max_model_len|--max-model-len"),
        (["plan", *QWEN, "--num-speculative-tokens", "x"], "must be a positive whole number"),
        (["plan", *QWEN, "--attention-backend", "FLASH"], "FLASH"),
        (["plan", *QWEN, "-tp", "3"], "3"),
        (["plan", *QWEN, "--speculative-config", "{"], "speculative"),
        (["compare", *QWEN], "nothing to compare with; add --drafter X"),
        (["compare", "a.json", "b.json"], "a.json"),
        (["layers", *QWEN, "--format", "junit"], "--format 'junit' is not known"),
        (
            ["kernel-blocks", *QWEN, "--kv-cache-layout", "XYZ"],
            "VLLM_KV_CACHE_LAYOUT=XYZ (--kv-cache-layout) is no KV cache",
        ),
        (["args"], "nothing to read"),
        (["args", "no-such-file"], "no-such-file cannot be read"),
        (["gpus", "--format", "junit"], "--format 'junit' is not known"),
        (["check", "no-such-file.yaml"], "no-such-file.yaml: cannot be read"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(kvplan, words, sentence):
    code, out, err = kvplan(*words)
    assert (code, out) == (2, "")
    assert err.startswith("kvplan: ")
    assert err.count("\n") == 1
    assert any(part in err for part in sentence.split("|"))
    assert err.rstrip().endswith((".", "?"))


def test_an_output_file_is_written_whole_or_not_at_all(kvplan, tmp_path):
    path = tmp_path / "plan.json"
    assert kvplan("plan", *QWEN, *BUDGET, "--format", "json", "-o", str(path)) == (0, "", "")
    before = path.read_text()
    assert json.loads(before)["model"]["id"] == "Qwen/Qwen3-8B"
    code, _, err = kvplan("plan", *QWEN, "--gpu", "H900", "-o", str(path))
    assert (code, path.read_text(), [p.name for p in tmp_path.iterdir()]) == (2, before, ["plan.json"])
    code, _, err = kvplan("plan", *QWEN, "-o", str(tmp_path / "no" / "plan.json"))
    assert code == 2
    assert "cannot be written (No such file or directory)" in err


def test_two_saved_plans_are_compared(kvplan, tmp_path):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    kvplan("plan", *QWEN, *BUDGET, "--format", "json", "-o", str(before))
    kvplan("plan", *QWEN, *BUDGET, "--kv-cache-dtype", "fp8", "--format", "json", "-o", str(after))
    code, out, err = kvplan("compare", str(before), str(after), "--format", "json")
    (variant,) = json.loads(out)["variants"]
    assert (code, err) == (0, "")
    assert round(variant["change"], 3) == 1.0


def test_a_whole_serve_line_is_a_model_too(kvplan):
    line = ["vllm", "serve", *QWEN[:1], "--max-model-len", "8192", "--port", "80"]
    _, flags, _ = kvplan("plan", *QWEN, "--format", "json")
    code, served, err = kvplan("plan", "--gpu", "H200", "--offline", "--format", "json", "--", *line)
    assert (code, err) == (0, "")
    assert json.loads(served)["plans"] == json.loads(flags)["plans"]


@pytest.mark.parametrize("words", [["plan", *QWEN], ["compare", *QWEN, "--drafter", "AngelSlim/Qwen3-8B_eagle3"]])
def test_csv_is_one_table(kvplan, words):
    extra = ["--num-speculative-tokens", "3"] if words[0] == "compare" else []
    code, out, _ = kvplan(*words, *extra, *BUDGET, "--format", "csv")
    rows = list(csv.reader(io.StringIO(out)))
    assert code == 0
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == (4 if words[0] == "plan" else 7)


def test_a_closed_pipe_is_no_error(monkeypatch):
    import os

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return os.open(os.devnull, os.O_WRONLY)

    monkeypatch.setattr(sys, "argv", ["kvplan", "plan", *QWEN])
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


DOCKER = ["docker", "run", "-p", "8000:8000", "vllm/vllm-openai:latest", "--model", "Qwen/Qwen3-8B"]
BASH = ["bash", "-c", "vllm serve Qwen/Qwen3-8B --max-model-len 4096"]


@pytest.mark.parametrize("line", [DOCKER, BASH])
@pytest.mark.parametrize("command", ["plan", "layers", "kernel-blocks"])
def test_flags_before_a_pasted_line_count_as_at_its_end(kvplan, command, line):
    own = ["--gpu", "H200", "--offline", "--format", "json", "--max-model-len", "8192", *BUDGET]
    apart = kvplan(command, *own, "--", *line)
    assert (apart[0], apart[2]) == (0, "")
    assert apart == kvplan(command, "Qwen/Qwen3-8B", *own)


def test_a_pasted_line_names_the_model(kvplan):
    code, out, err = kvplan("plan", *QWEN, "--", *DOCKER)
    assert (code, out) == (2, "")
    assert err == "kvplan: Qwen/Qwen3-8B stands before -- and a whole line after it; name a model in the line only.\n"


def test_flags_after_two_dashes_belong_to_the_model_before_them(kvplan):
    apart = kvplan("plan", *QWEN, "--format", "csv", "--", "--block-size", "32")
    assert apart[0] == 0
    assert apart == kvplan("plan", *QWEN, "--format", "csv", "--block-size", "32")


def test_no_bytes_are_no_budget_as_in_vllm(kvplan):
    code, out, _ = kvplan("plan", *QWEN, "--kv-cache-memory-bytes", "0", "--format", "json")
    assert code == 0
    assert json.loads(out)["plans"]["main"]["num_blocks"] is None


@pytest.mark.parametrize(
    "line",
    [
        "check {file} -o {file}",
        "check {file} --update -o {file}",
        "check --output={file} {file}",
        "args {file} -o {file}",
        "verify {file} -o {link}",
        "compare {file} {file} -o {file}",
        "plan Qwen/Qwen3-8B --from-log={file} -o {file}",
        "plan {file} --offline --gpu H200 -o {file}",
        "check {file} -o {lock}",
    ],
)
def test_a_file_that_is_read_is_never_the_output(kvplan, tmp_path, line):
    file, link, lock = tmp_path / "file", tmp_path / "link", tmp_path / "kvplan.lock"
    file.write_text("deployments: [{name: a, model: Qwen/Qwen3-8B, gpu: H200}]")
    link.symlink_to(file)
    lock.write_text("{}")
    code, out, err = kvplan(*line.format(file=file, link=link, lock=lock).split())
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "give -o another file." in err
    assert file.read_text().startswith("deployments: ")
    assert lock.read_text() == "{}"
