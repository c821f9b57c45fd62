"""MXFP4 experts: packed 4-bit weights with a byte of scale per 32 of them; everything else stays as it is.

Source: vllm/model_executor/layers/quantization/mxfp4.py; how sizes are padded follows from the kernel
(`mxfp4_round_up_hidden_size_and_intermediate_size` of fused_moe/oracle/mxfp4.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.errors import Refused
from kvplan.weights.parts import Experts, Tensor
from kvplan.weights.quant.base import Unquantized

_GROUP = 32
_TRITON, _MARLIN, _TRTLLM = (1, 64), (256, 128), (256, 128)
"""What a kernel pads the hidden and the intermediate size to a multiple of."""


class Mxfp4(Unquantized):
    """`Mxfp4Config`; gpt-oss has an order of kernels of its own (`GptOssMxfp4Config`)."""

    name = "mxfp4"

    def __init__(self, gpt_oss: bool = False) -> None:
        self.gpt_oss = gpt_oss

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        return packed_experts(layer, self.gpt_oss)


def packed_experts(layer: Experts, gpt_oss: bool = False) -> tuple[Tensor, ...]:
    """Weights, scales and biases of the experts."""
    hidden, intermediate = padded_sizes(layer, gpt_oss)
    up = layer.local * layer.shards * intermediate
    down = layer.local * hidden
    tensors = (
        Tensor("w13_weight", up * (hidden // 2), "uint8"),
        Tensor("w13_weight_scale", up * (hidden // _GROUP), "uint8"),
        Tensor("w2_weight", down * (intermediate // 2), "uint8"),
        Tensor("w2_weight_scale", down * (intermediate // _GROUP), "uint8"),
    )
    if not layer.has_bias:
        return tensors
    return (*tensors, Tensor("w13_bias", up, "bfloat16"), Tensor("w2_bias", down, "bfloat16"))


def padded_sizes(layer: Experts, gpt_oss: bool) -> tuple[int, int]:
    """Hidden and intermediate size as the GPU's kernel wants them."""
    if layer.backend != "auto":
        raise Refused(
            f"--moe-backend {layer.backend}: how it pads MXFP4 experts is not known to kvplan; leave it out, or give "
            "--weights-bytes."
        )
    major = layer.capability[0]
    steps = _TRTLLM if major == 10 else _TRITON if gpt_oss and major == 9 else _MARLIN
    hidden, intermediate = (
        -(-size // step) * step for size, step in zip((layer.hidden, layer.intermediate), steps, strict=True)
    )
    return hidden, intermediate
