"""DeepSeek-V4 takes FlashMLA's kernels but on consumer Blackwell (vllm/models/deepseek_v4/nvidia/model.py)."""

from __future__ import annotations

import pytest

from kvplan import EngineArgs, PlanRequest, Refused, plan

MODEL = "deepseek-ai/DeepSeek-V4-Flash"


def backends(gpu: str, requested: str | None = None) -> set[str]:
    args = EngineArgs(model=MODEL, tensor_parallel_size=8, max_model_len=32768, attention_backend=requested)
    layers = plan(PlanRequest(args, gpu=gpu, offline=True)).layers
    return {layer.backend for layer in layers if layer.backend.endswith("_DSV4")}


@pytest.mark.parametrize(
    ("gpu", "requested", "backend"),
    [
        ("B300", None, "FLASHMLA_SPARSE_DSV4"),
        ("H200", None, "FLASHMLA_SPARSE_DSV4"),
        ("RTX PRO 6000", None, "FLASHINFER_MLA_SPARSE_DSV4"),
        ("RTX PRO 6000", "FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4"),
        ("B300", "FLASHINFER_MLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV4"),
    ],
)
def test_the_gpu_decides_unless_the_flag_does(gpu, requested, backend):
    assert backends(gpu, requested) == {backend}


def test_another_sparse_backend_is_refused():
    with pytest.raises(Refused, match="name FLASHINFER_MLA_SPARSE_DSV4"):
        backends("B300", "FLASHINFER_MLA_SPARSE")
