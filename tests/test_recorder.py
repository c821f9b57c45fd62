"""The parts of the recorder that work without vLLM: what to install beside it, and the names of cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorder.case import Case, from_fields, read
from recorder.checkpoint import Checkpoints
from recorder.needs import needed


def test_what_only_a_gpu_uses_is_not_asked_for() -> None:
    required = [
        "torch==2.14.0",
        "torchvision==0.29.0",
        "nvidia-cutlass-dsl[cu13]==4.8.0",
        "flashinfer-python==0.7.2.post1",
        "humming-kernels[cu13]==0.1.19",
        "PyNvVideoCodec==2.0.4",
        'pytest; extra == "test"',
        "fastapi[standard]<0.137.0,>=0.133.0",
        'six>=1.16.0; python_version > "3.11"',
    ]
    assert needed(required) == ["fastapi[standard]<0.137.0,>=0.133.0", 'six>=1.16.0; python_version > "3.11"']


def test_a_case_is_read_back_from_what_it_writes() -> None:
    options = {"tensor_parallel_size": 2, "speculative_config": {"method": "mtp", "num_speculative_tokens": 1}}
    case = Case("a/b", "H200", options, {"VLLM_KV_CACHE_LAYOUT": "BLHNC"}, (1, 2))
    assert case.id == "a/b + mtp 1 on H200 tensor_parallel_size=2 VLLM_KV_CACHE_LAYOUT=BLHNC memory=[1,2]"
    assert from_fields(case.fields()) == case
    assert Case("a/b").fields() == {"model": "a/b"}


def test_the_same_case_twice_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text('{"model":"a/b"}\n{"model":"a/b","gpu":"B200"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="a/b on B200 is there twice"):
        read(file)


def test_the_target_of_a_speculators_drafter_is_in_the_cache_of_the_hub() -> None:
    checkpoints = Checkpoints()
    checkpoints.path("RedHatAI/gemma-4-31B-it-speculator.eagle3")
    cached = Path(checkpoints.hub_cache) / "models--google--gemma-4-31B-it"
    assert (cached / "refs" / "main").read_text(encoding="utf-8") == "0"
    assert (cached / "snapshots" / "0" / "config.json").is_file()
    checkpoints.close()
