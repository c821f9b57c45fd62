"""Routed experts of compressed-tensors checkpoints.

Source: vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors_moe (``create_weights``).
"""

from __future__ import annotations

from kvplan.errors import DoesNotStart, Refused
from kvplan.weights.parts import Experts, Tensor
from kvplan.weights.quant.base import expert_biases
from kvplan.weights.quant.compressed_groups import (
    INT32,
    PACKED,
    Args,
    Group,
    is_fp8,
    is_int8,
    is_mxfp4,
    is_mxfp8,
    is_nvfp4,
    unknown,
)
from kvplan.weights.quant.fp8 import FP8

_MARLIN_HIDDEN = 128
"""What Marlin needs the hidden size to be a multiple of (`check_moe_marlin_supports_config`)."""


def expert_tensors(layer: Experts, group: Group) -> tuple[Tensor, ...]:
    """Tensors of routed experts. Refused for a scheme that is not known."""
    weights, inputs = group.weights, group.inputs
    if is_mxfp4(weights) and inputs is None:
        return _expert_mx(layer, "_weight_packed", 2, "uint8")
    if is_mxfp8(weights):
        return _expert_mx(layer, "_weight", 1, FP8)
    packed = weights.kind == "int" and weights.strategy in ("group", "channel") and group.format == PACKED
    if packed and inputs is None and not weights.dynamic and weights.bits in (4, 8):
        return _expert_packed(layer, weights)
    if is_nvfp4(weights):
        return _expert_nvfp4(layer)
    if is_fp8(weights) and inputs is not None:
        return _expert_fp8(layer, weights, inputs)
    if is_int8(group) and inputs is not None and inputs.dynamic and weights.strategy == "channel":
        return _expert_int8(layer)
    raise unknown(layer.prefix, group)


def _sizes(layer: Experts) -> tuple[int, int]:
    """Rows of the fused gate and up projections, and of the down projection, of all experts on the rank."""
    return layer.local * layer.shards * layer.intermediate, layer.local * layer.hidden


def _expert_mx(layer: Experts, name: str, per_byte: int, dtype: str) -> tuple[Tensor, ...]:
    up, down = _sizes(layer)
    return (
        Tensor(f"w13{name}", up * (layer.hidden // per_byte), dtype),
        Tensor(f"w2{name}", down * (layer.intermediate // per_byte), dtype),
        Tensor("w13_weight_scale", up * (layer.hidden // 32), "uint8"),
        Tensor("w2_weight_scale", down * (layer.intermediate // 32), "uint8"),
    )


def _expert_packed(layer: Experts, weights: Args) -> tuple[Tensor, ...]:
    up, down = _sizes(layer)
    factor = INT32 // weights.bits
    groups = _groups(layer, weights)
    tensors = [
        Tensor("w13_weight_packed", up * (layer.hidden // factor), "int32"),
        Tensor("w2_weight_packed", down * (layer.intermediate // factor), "int32"),
        *expert_biases(layer),
        Tensor("w13_weight_scale", up * groups[0], layer.dtype),
        Tensor("w2_weight_scale", down * groups[1], layer.dtype),
        Tensor("w2_weight_shape", 2 * layer.local, layer.dtype),
        Tensor("w13_weight_shape", 2 * layer.local, layer.dtype),
    ]
    if not weights.symmetric:
        _check_zero_points(layer, factor)
        rows = layer.shards * layer.intermediate // factor
        tensors.append(Tensor("w13_weight_zero_point", layer.local * rows * groups[0], "int32"))
        zeros = layer.local * (layer.hidden // factor) * groups[1]
        tensors.append(Tensor("w2_weight_zero_point", zeros, "int32"))
    return tuple(tensors)


def _check_zero_points(layer: Experts, factor: int) -> None:
    """DoesNotStart where a rank's rows do not fill the words that their zero points are packed in."""
    for what, size in (("twice the intermediate size", 2 * layer.intermediate), ("the hidden size", layer.hidden)):
        if size % factor:
            raise DoesNotStart(
                f"{layer.prefix}: on a rank, {what} is {size}, but zero points are packed by {factor}; choose another "
                "--tensor-parallel-size."
            )


def _groups(layer: Experts, weights: Args) -> tuple[int, int]:
    """Scales of a row of the up and of the down projection."""
    if weights.strategy == "channel":
        if layer.hidden % _MARLIN_HIDDEN:  # no other kernel takes scales by channel
            raise DoesNotStart(
                f"{layer.prefix}: hidden size {layer.hidden} is not a multiple of {_MARLIN_HIDDEN}, which packed "
                "experts with scales by channel need; take a checkpoint with scales by group."
            )
        return 1, 1
    size = weights.group or 0
    if size <= 0:
        raise Refused(f"{layer.prefix}: quantisation by group needs a group_size of 1 or more, got {size}.")
    if layer.hidden % size or layer.intermediate % size:
        raise DoesNotStart(
            f"{layer.prefix}: hidden size {layer.hidden} and a rank's intermediate size {layer.intermediate} must be "
            f"multiples of the quantisation's group of {size}; choose another --tensor-parallel-size."
        )
    return layer.hidden // size, layer.intermediate // size


def _expert_nvfp4(layer: Experts) -> tuple[Tensor, ...]:
    up, down = _sizes(layer)
    return (
        Tensor("w13_weight_packed", up * (layer.hidden // 2), "uint8"),
        Tensor("w2_weight_packed", down * (layer.intermediate // 2), "uint8"),
        Tensor("w13_weight_scale", up * (layer.hidden // 16), FP8),
        Tensor("w2_weight_scale", down * (layer.intermediate // 16), FP8),
        Tensor("w13_weight_global_scale", layer.local * layer.shards, "float32"),
        Tensor("w2_weight_global_scale", layer.local, "float32"),
        Tensor("w13_input_global_scale", layer.local * layer.shards, "float32"),
        Tensor("w2_input_global_scale", layer.local, "float32"),
    )


def _expert_fp8(layer: Experts, weights: Args, inputs: Args) -> tuple[Tensor, ...]:
    token = weights.strategy == "channel" and inputs.strategy == "token" and inputs.dynamic
    if weights.strategy != "block" and not token and (weights.strategy, inputs.strategy) != ("tensor", "tensor"):
        raise DoesNotStart(
            f"{layer.prefix}: vLLM takes FP8 experts with scales by tensor, by channel and token, or by block; not "
            f"weights by {weights.strategy} with inputs by {inputs.strategy}."
        )
    up, down = _sizes(layer)
    tensors = (Tensor("w13_weight", up * layer.hidden, FP8), Tensor("w2_weight", down * layer.intermediate, FP8))
    scales = (*tensors, *_expert_fp8_scales(layer, weights))
    if inputs.dynamic:
        return scales
    return (
        *scales,
        Tensor("w13_input_scale", layer.local, "float32"),
        Tensor("w2_input_scale", layer.local, "float32"),
    )


def _expert_fp8_scales(layer: Experts, weights: Args) -> tuple[Tensor, Tensor]:
    up, down = _sizes(layer)
    counts = {"tensor": (layer.local * layer.shards, layer.local), "channel": (up, down)}.get(weights.strategy)
    if counts is None:
        rows, columns = weights.block or (0, 0)
        split = layer.tensor_parallel_size > 1
        if not rows:
            raise Refused(f"{layer.prefix}: quantisation by block needs a block_structure.")
        if layer.intermediate % rows or (split and layer.intermediate % columns):
            raise DoesNotStart(
                f"{layer.prefix}: a rank's intermediate size {layer.intermediate} is not a multiple of the "
                f"quantisation's blocks {rows} x {columns}; choose another --tensor-parallel-size."
            )
        up = layer.local * layer.shards * -(-layer.intermediate // rows) * -(-layer.hidden // columns)
        counts = up, layer.local * -(-layer.hidden // rows) * -(-layer.intermediate // columns)
    return Tensor("w13_weight_scale", counts[0], "float32"), Tensor("w2_weight_scale", counts[1], "float32")


def _expert_int8(layer: Experts) -> tuple[Tensor, ...]:
    up, down = _sizes(layer)
    return (
        Tensor("w13_weight", up * layer.hidden, "int8"),
        Tensor("w2_weight", down * layer.intermediate, "int8"),
        *expert_biases(layer),
        Tensor("w13_weight_scale", up, "float32"),
        Tensor("w2_weight_scale", down, "float32"),
    )
