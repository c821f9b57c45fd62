"""DeepSeek-V4's scheme: FP8 blocks, with experts in MXFP4, NVFP4 or FP8 as the checkpoint says.

Source: vllm/models/deepseek_v4/quant_config.py (DeepseekV4FP8Config).
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.errors import Refused
from kvplan.weights.parts import Experts, Tensor
from kvplan.weights.quant.fp8 import Fp8
from kvplan.weights.quant.mxfp4 import packed_experts
from kvplan.weights.quant.skipped import Ignored

_EXPERTS = ("fp4", "fp8")


class DeepseekV4(Fp8):
    """``experts_in``: expert_dtype of the config; scales are powers of two in a byte beside fp4 experts."""

    name = "deepseek_v4_fp8"

    def __init__(self, block: tuple[int, int] | None, static: bool, experts_in: str, algorithm: str) -> None:
        if experts_in not in _EXPERTS:
            raise Refused(f"expert_dtype {experts_in!r} is not one that vLLM 0.33.0 loads for DeepSeek-V4: fp4 or fp8.")
        dtype = "float8_e8m0fnu" if experts_in == "fp4" else "float32"
        super().__init__(Ignored([], {}), block, static, dtype)
        self.experts_in = experts_in
        self.algorithm = algorithm

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        if self.experts_in != "fp4":
            return super().experts(layer)
        if self.algorithm == "NVFP4":
            raise Refused("quantization_config: moe_quant_algo NVFP4 is not known to kvplan; give --weights-bytes.")
        return packed_experts(layer)
