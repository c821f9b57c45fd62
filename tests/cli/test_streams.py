"""Whatever becomes of stdout, stderr and the output file: no traceback, no data elsewhere, the command's exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

KVPLAN = f"{sys.executable} -m kvplan"
FITS = "plan Qwen/Qwen3-8B --gpu H200 --offline --kv-cache-memory-bytes 20GiB"
TOO_SMALL = "plan Qwen/Qwen3-8B --gpu H200 --offline --kv-cache-memory-bytes 1GiB"
UNKNOWN = "plan no/model --offline"


def shell(command: str, folder=None) -> tuple[int, str, str]:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [(FITS, 0), (TOO_SMALL, 1), ("gpus", 0), ("check --schema", 0), (UNKNOWN, 2)]
)
def test_a_closed_stdout_swallows_the_text_and_the_exit_code_stays(words, code):
    done, out, err = shell(f"{KVPLAN} {words} >&-")
    assert (done, out) == (code, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [FITS, "gpus", "models --format json"])
def test_a_full_disk_behind_stdout_is_one_sentence(words):
    done, _, err = shell(f"{KVPLAN} {words} > /dev/full")
    assert (done, err) == (2, "kvplan: stdout: cannot be written (No space left on device).\n")


def test_a_closed_stderr_puts_no_sentence_into_the_data():
    assert shell(f"{KVPLAN} {UNKNOWN} 2>&-") == (2, "", "")


@pytest.mark.parametrize(("words", "code"), [(FITS, 0), (TOO_SMALL, 1)])
def test_a_reader_that_has_gone_does_not_change_the_exit_code(words, code):
    command = f"set -o pipefail; (sleep 0.5; {KVPLAN} {words} --format json) | true"
    assert shell(command) == (code, "", "")


@pytest.mark.parametrize("path", ["no/folder/x", ".", "", "x/y"])
def test_an_output_file_that_cannot_be_written_is_one_sentence(tmp_path, path):
    (tmp_path / "x").write_text("a file")
    done, out, err = shell(f"{KVPLAN} {FITS} -o '{path}'", tmp_path)
    assert (done, out) == (2, "")
    assert err.count("\n") == 1
    assert "cannot be written (" in err


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    assert shell(f"{KVPLAN} {FITS} -o link", tmp_path) == (0, "", "")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text().startswith("It fits")
    os.mkfifo(tmp_path / "pipe")
    done, out, _ = shell(f"{KVPLAN} {FITS} -o pipe & cat pipe; wait", tmp_path)
    assert (done, out[:7], (tmp_path / "pipe").is_fifo()) == (0, "It fits", True)
    assert shell(f"{KVPLAN} {FITS} -o /dev/stdout", tmp_path)[1].startswith("It fits")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "link", "pipe"]


def test_a_manifest_on_stdin_is_read():
    done, out, err = shell(f"echo 'vllm serve org/m -tp 2' | {KVPLAN} args -")
    assert (done, err) == (0, "")
    assert '"model": "org/m", "options": {"tensor_parallel_size": 2}' in out


def fleet(folder, count: int) -> None:
    listed = [
        {
            "name": f"d{i}",
            "model": "Qwen/Qwen3-8B",
            "gpu": "H200",
            "kv_cache_memory": "20GiB",
            "max_model_len": 1024 + i,
        }
        for i in range(count)
    ]
    (folder / "fleet.yaml").write_text(yaml.safe_dump({"deployments": listed}))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_an_update_that_is_stopped_leaves_the_old_lock(tmp_path, number):
    fleet(tmp_path, 1)
    assert shell(f"{KVPLAN} check fleet.yaml --update --offline", tmp_path)[0] == 0
    before = (tmp_path / "kvplan.lock").read_bytes()
    fleet(tmp_path, 4000)
    argv = [sys.executable, "-m", "kvplan", "check", "fleet.yaml", "--update", "--offline"]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (-number, "", "")
    assert (tmp_path / "kvplan.lock").read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fleet.yaml", "kvplan.lock"]
