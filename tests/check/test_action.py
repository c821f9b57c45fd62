"""action.yml: its shell steps, run by bash as GitHub runs them, with stubs for `python -m venv` and `gh`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
FLEET = """
deployments:
- name: chat
  model: Qwen/Qwen3-8B
  gpu: H200
  kv_cache_memory: 20GiB
  limits: {min_tokens: %d}
"""

PYTHON = """#!/bin/bash
# python -m venv FOLDER: a Python that notes what pip is asked for, and runs kvplan.
mkdir -p "$3/bin"
printf '#!/bin/bash\\nif [ "$2" = pip ]; then echo "$@" >> "%s/pip.txt"; else exec "%s" "$@"; fi\\n' > "$3/bin/python"
chmod +x "$3/bin/python"
"""
GH = """#!/bin/bash
printf '%%s\\n' "$*" >> "%s/gh.txt"
for word; do case "$word" in body=@*) cp "${word#body=@}" "%s/body.md";; esac; done
if [ "$GH_FAILS" = 1 ]; then echo "HTTP 403" >&2; exit 1; fi
case "$*" in *--paginate*) printf '%%s' "$GH_KNOWN";; esac
"""


class Runner:
    """A scratch directory with the files and variables of a GitHub runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs: dict[str, str] = {}
        stubs = folder / "stubs"
        stubs.mkdir()
        for name, text in (("python", PYTHON % (folder, sys.executable)), ("gh", GH % (folder, folder))):
            (stubs / name).write_text(text)
            (stubs / name).chmod(0o755)
        (folder / "fleet.yaml").write_text(FLEET % 100_000)
        self.environment = {
            "PATH": f"{stubs}:/usr/bin:/bin",
            "HF_HUB_OFFLINE": "1",
            "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_OUTPUT": str(folder / "output.txt"),
        }
        (folder / "temp").mkdir()

    def step(self, name: str, inputs: dict[str, str], **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a step with the action's inputs, by the command line of `shell: bash`."""
        step = STEPS[name]
        given = {key: str(value.get("default", "")) for key, value in ACTION["inputs"].items()} | inputs
        context = {f"inputs.{key}": value for key, value in given.items()}
        context |= {f"steps.check.outputs.{key}": value for key, value in self.outputs.items()}
        context |= {
            "github.action_path": str(ROOT),
            "github.repository": "o/r",
            "github.event.pull_request.number": "7",
        }
        own = {key: re.sub(r"\$\{\{ (\S+) \}\}", lambda m: context[m[1]], v) for key, v in step.get("env", {}).items()}
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        variables = {**self.environment, **own, **environment}
        return subprocess.run(argv, env=variables, cwd=self.folder, capture_output=True, text=True, check=False)

    def check(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Install, then check; the outputs of the check are kept for the comment."""
        assert self.step("Install kvplan", inputs).returncode == 0
        done = self.step("Check", {"file": "fleet.yaml", "offline": "true", **inputs})
        lines = self.read("output.txt").splitlines()
        self.outputs = dict(line.split("=", 1) for line in lines)
        return done

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def update(self) -> None:
        argv = [sys.executable, "-m", "kvplan", "check", "fleet.yaml", "--update", "--offline"]
        subprocess.run(argv, cwd=self.folder, capture_output=True, check=False)


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


def test_no_input_is_pasted_into_a_script() -> None:
    assert all("${{" not in step["run"] for step in STEPS.values() if "run" in step)
    assert all(step["shell"] == "bash" for step in STEPS.values() if "run" in step)


def test_kvplan_is_installed_from_the_checkout_of_the_action(runner) -> None:
    assert runner.step("Install kvplan", {}).returncode == 0
    assert runner.read("pip.txt").split()[-1] == str(ROOT)


def test_what_holds_passes_with_a_summary(runner) -> None:
    runner.update()
    done = runner.check()
    assert (done.returncode, runner.outputs["exit-code"], done.stderr) == (0, "0", "")
    assert done.stdout == "::notice title=kvplan check::1 deployment checked: all hold.\n"
    assert runner.read("summary.md").startswith("**kvplan: 1 deployment checked: all hold.**\n\n| deployment |")


def test_a_limit_that_fails_is_annotated_on_its_line_and_fails_the_job(runner) -> None:
    (runner.folder / "fleet.yaml").write_text(FLEET % 200_000)
    runner.update()
    done = runner.check()
    assert (done.returncode, runner.outputs["exit-code"]) == (1, "1")
    assert done.stdout.startswith("::error file=fleet.yaml,line=7,title=kvplan%3A chat::min_tokens 200,000 does")
    assert "min_tokens 200,000 does not hold: 145,632" in runner.read("summary.md").replace("\\", "")


def test_a_lock_that_is_missing_is_an_error_with_what_to_do(runner) -> None:
    done = runner.check()
    assert (done.returncode, runner.outputs["exit-code"]) == (2, "2")
    assert done.stdout.startswith("::error title=kvplan check::kvplan: kvplan.lock: is missing; write it with")
    assert "    kvplan: kvplan.lock: is missing" in runner.read("summary.md")


def test_engine_rules_are_compared_without_a_lock(runner) -> None:
    done = runner.check(engine="vllm-0.33.0", against="vllm-next")
    assert (done.returncode, "all hold" in done.stdout) == (0, True)


@pytest.mark.parametrize("file", ["$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "--update", "a b'c\n::x"])
def test_an_input_is_a_word_and_never_a_script(runner, file) -> None:
    done = runner.check(file=file, engine="$(touch pwned)")
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=kvplan check::kvplan: --engine")
    assert runner.check(file=file).returncode == 2
    assert not (runner.folder / "pwned").exists()
    assert not (runner.folder / "kvplan.lock").exists()


def test_the_comment_is_written_once_and_then_renewed(runner) -> None:
    runner.update()
    runner.check()
    assert runner.step("Comment", {"file": "fleet.yaml", "token": "t"}).returncode == 0
    listed, posted = runner.read("gh.txt").splitlines()
    assert listed.startswith("api --paginate repos/o/r/issues/7/comments --jq")
    assert posted.startswith("api --silent --method POST repos/o/r/issues/7/comments --field body=@")
    marker, verdict = runner.read("body.md").splitlines()[:2]
    assert re.fullmatch(r"<!-- kvplan check \d+ -->", marker)
    assert verdict == "**kvplan: 1 deployment checked: all hold.**"
    runner.step("Comment", {"file": "fleet.yaml", "token": "t"}, GH_KNOWN="42\n43\n")
    assert "--method PATCH repos/o/r/issues/comments/42 --field" in runner.read("gh.txt").splitlines()[-1]


def test_a_comment_that_may_not_be_written_is_a_warning(runner) -> None:
    runner.update()
    runner.check()
    done = runner.step("Comment", {"file": "fleet.yaml", "token": "t"}, GH_FAILS="1")
    assert (done.returncode, done.stdout[:9]) == (0, "::warning")


def test_outside_a_pull_request_nothing_is_posted(runner) -> None:
    runner.update()
    runner.check()
    done = runner.step("Comment", {"file": "fleet.yaml", "token": "t"}, PULL_REQUEST="")
    assert (done.returncode, done.stdout[:8], runner.read("gh.txt")) == (0, "::notice", "")
