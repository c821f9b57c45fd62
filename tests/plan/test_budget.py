"""From a GPU to a KV budget: requested, less weights, less what a start-up takes."""

from __future__ import annotations

import sys

import pytest

from kvplan.__main__ import main
from kvplan.budget import EXACT, GIVEN, Rest, budget, derived, rest_of_log
from kvplan.commands.deployment import Choices, request
from kvplan.errors import KvplanError
from kvplan.inputs import read
from kvplan.pipeline import plan_read

GIB = 2**30


def loaded(*words: str, gpu: str = "H200"):
    wanted = request(list(words), Choices(gpu=gpu, offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    return plan_read(wanted._replace(args=args), inputs), inputs


def budgeted(*words: str, rest: Rest | None = None, weights: int | None = None, gpu: str = "H200"):
    result, inputs = loaded(*words, gpu=gpu)
    return budget(result.config, inputs.target, inputs.drafter, rest, weights)


def test_qwen3_8b_takes_the_weights_that_vllm_logged_on_an_a100():
    """A start-up of 0.9.2 logged 15.2683 GiB, which counts the memory that was taken and not the tensors alone."""
    found = budgeted("Qwen/Qwen3-8B")
    assert found.weights[0].total == 16391957056
    assert found.weights[0].total / GIB == pytest.approx(15.2683, rel=2e-4)
    assert found.weights_source == f"{EXACT} the recorded size of the checkpoint"


def test_what_is_requested_is_rounded_up_as_vllm_does():
    found = budgeted("Qwen/Qwen3-8B", "--gpu-memory-utilization", "0.5")
    assert found.requested_bytes == -(-found.usable_bytes // 2)


def test_the_rest_is_taken_off_and_without_it_the_memory_is_a_bound():
    bound, exact = budgeted("Qwen/Qwen3-8B"), budgeted("Qwen/Qwen3-8B", rest=Rest(4 * GIB, "flag"))
    assert bound.memory[0] - exact.memory[0] == 4 * GIB
    assert exact.memory[0] == exact.requested_bytes - exact.weights[0].total - 4 * GIB


def test_weights_that_are_given_stand_in_for_those_derived():
    found = budgeted("Qwen/Qwen3-8B", "-pp", "2", weights=10 * GIB)
    assert [stage.total for stage in found.weights] == [10 * GIB] * 2
    assert found.weights_source == GIVEN


def test_weights_larger_than_the_gpu_leave_nothing_and_never_less():
    assert budgeted("Qwen/Qwen3-235B-A22B", gpu="L4").memory == (0,)


def test_weights_are_split_over_tensor_parallel_ranks_and_stages():
    result, inputs = loaded("Qwen/Qwen3-32B")
    ((whole,), _) = derived(result.config, inputs.target, None)
    for flags, stages in ((("-tp", "2"), 1), (("-pp", "2"), 2), (("-tp", "2", "-pp", "2"), 2)):
        parted, sources = loaded("Qwen/Qwen3-32B", *flags)
        found, _ = derived(parted.config, sources.target, None)
        ranks = 2 if "-tp" in flags else 1
        assert len(found) == stages
        assert whole.total <= ranks * sum(stage.total for stage in found) < 1.001 * whole.total


def test_a_drafter_is_on_the_last_stage():
    spec = '{"model": "z-lab/Qwen3.6-35B-A3B-DFlash", "num_speculative_tokens": 7}'
    (found,) = budgeted("Qwen/Qwen3.6-35B-A3B-FP8", "--speculative-config", spec).weights
    assert 0 < found.drafter < found.target


LOG = """\
INFO 11-01 10:00:00 [gpu_model_runner.py:1] Model loading took 15.2683 GiB and 3.1 seconds
INFO 11-01 10:00:01 [gpu_worker.py:1] Available KV cache memory: 18.69 GiB
"""


ASKED = "INFO 11-01 09:59:00 [utils.py:1] non-default args: {'model': 'Qwen/Qwen3-8B', 'gpu_memory_utilization': 0.9}\n"
REQUESTED = 'what memory was requested ("Free memory on device", or gpu_memory_utilization among its options)'
LOADED = 'what the weights took ("Model loading took")'
LEFT = 'what was left for the KV cache ("Available KV cache memory")'


@pytest.mark.parametrize(
    ("log", "missing"),
    [
        (LOG, REQUESTED),
        (LOG.partition("\n")[2], f"{REQUESTED} nor {LOADED}"),
        (ASKED + LOG.partition("\n")[2], LOADED),
        (ASKED + LOG.partition("\n")[0] + "\n", LEFT),
    ],
)
def test_what_a_log_lacks_is_named(tmp_path, log, missing):
    path = tmp_path / "start.log"
    path.write_text(log)
    with pytest.raises(KvplanError) as told:
        rest_of_log(str(path), 139 * GIB)
    assert str(told.value) == f"--from-log {path}: the log does not say {missing}; give --non-kv-memory-bytes."


def test_the_utilization_that_was_asked_for_tells_what_was_requested(tmp_path):
    path = tmp_path / "start.log"
    path.write_text(ASKED + LOG)
    assert rest_of_log(str(path), 100 * GIB) == Rest(round((90 - 15.2683 - 18.69) * GIB), str(path))


def test_a_kv_memory_that_was_given_is_not_what_was_left(tmp_path):
    path = tmp_path / "start.log"
    given = "INFO 11-01 [gpu_worker.py:1] Initial free memory 70.0 GiB, reserved 9.35 GiB memory for KV Cache"
    path.write_text(f"{ASKED}{LOG.partition(chr(10))[0]}\n{given} as specified\n")
    with pytest.raises(KvplanError, match="was given with --kv-cache-memory-bytes and is not what was left"):
        rest_of_log(str(path), 100 * GIB)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--non-kv-memory-bytes", "4GiB", "--kv-cache-memory-bytes", "1GiB"], "both say what the KV cache gets"),
        (["--non-kv-memory-bytes", "4GiB", "--from-log", "x"], "say the same thing"),
        (["--non-kv-memory-bytes", "much"], "--non-kv-memory-bytes 'much' is not a number"),
        (["--weights-bytes", "-1"], "--weights-bytes"),
        (["--from-log", "no-such.log"], "cannot be read"),
    ],
)
def test_wrong_budgets_are_one_sentence(monkeypatch, capsys, words, sentence):
    monkeypatch.setattr(sys, "argv", ["kvplan", "plan", "Qwen/Qwen3-8B", "--gpu", "H200", "--offline", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out = capsys.readouterr()
    assert (ended.value.code, out.out) == (2, "")
    assert sentence in out.err


def test_the_text_says_what_is_derived_and_what_is_not(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kvplan", "plan", "Qwen/Qwen3-8B", "--gpu", "H200", "--offline"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split("\n\n")[-1] == (
        "Budget\n"
        "  128.62 GiB of the GPU's 139.8 GiB for CUDA: --gpu-memory-utilization 0.92\n"
        "  - 15.27 GiB weights per rank (exact: derived from the configs, and as large as\n"
        "    the recorded size of the checkpoint)\n"
        "  - about 1.05 GiB activations (the sampler: max_num_seqs x vocabulary)\n"
        "  - about 0.6 GiB sampler state (penalties of max_num_seqs x vocabulary)\n"
        "  - about 0.53 GiB CUDA graphs (102 graphs x layers, and their pool)\n"
        "  - about 0.25 GiB outside torch (CUDA's context, NCCL)\n"
        "  = about 110.92 GiB for the KV cache; 107.27 GiB to 112.13 GiB at x0.5 to x2.5\n"
        "    of these estimates\n"
        "  about 807,680 tokens; 781,120 to 816,528\n"
        "  give what they take with --non-kv-memory-bytes or --from-log LOG, or\n"
        "    --kv-cache-memory-bytes\n"
    )
