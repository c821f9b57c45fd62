"""Triton's attention reads an fp8 cache from compute capability 8.9 on (vllm/v1/attention/backends/triton_attn.py)."""

from __future__ import annotations

import pytest

from kvplan import EngineArgs, PlanRequest, plan
from kvplan.errors import Refused

TRITON = EngineArgs("Qwen/Qwen3-8B", attention_backend="TRITON_ATTN", kv_cache_dtype="fp8")


def test_triton_reads_no_fp8_cache_on_an_a100():
    with pytest.raises(Refused, match=r"TRITON_ATTN does not support an fp8 cache.*bfloat16 is supported.*A100 80GB"):
        plan(PlanRequest(TRITON, gpu="A100 80GB", offline=True))


@pytest.mark.parametrize(("gpu", "dtype"), [("L4", "fp8"), ("A100 80GB", "bfloat16")])
def test_it_does_on_later_gpus_and_bfloat16_everywhere(gpu, dtype):
    found = plan(PlanRequest(TRITON._replace(kv_cache_dtype=dtype), gpu=gpu, offline=True))
    assert {layer.backend for layer in found.layers} == {"TRITON_ATTN"}
