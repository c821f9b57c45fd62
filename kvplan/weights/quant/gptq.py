"""GPTQ and AWQ: integers packed into int32, with scales and zero points per group of inputs.

Source: vllm/model_executor/layers/quantization/auto_gptq.py, auto_awq.py, moe_wna16.py, utils/gptq_utils.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvplan.errors import DoesNotStart, Refused
from kvplan.weights.names import Packed
from kvplan.weights.parts import Experts, Linear, Tensor
from kvplan.weights.quant.base import Unquantized, plain_experts, plain_linear
from kvplan.weights.quant.patterns import compiled
from kvplan.weights.quant.skipped import Ignored

_INT32 = "int32"
_MARLIN_GROUPS = (-1, 32, 64, 128)
_MARLIN_HIDDEN = 128


class Packing(NamedTuple):
    """How weights are packed: bits of each, and inputs that share a scale (-1: all)."""

    bits: int
    group: int


class Gptq(Unquantized):
    """`AutoGPTQConfig`."""

    name = "auto_gptq"

    def __init__(
        self,
        packing: Packing,
        head: bool,
        quantized: Sequence[str],
        rules: Sequence[tuple[str, Packing | None]],
        packed: Packed,
    ) -> None:
        self.packing = packing
        self.head_is_quantized = head
        self.quantized = tuple(quantized)
        """Names of quantised layers, or parts of such names; empty: all."""
        self.rules = tuple(rules)
        """Expressions for layers with a packing of their own, or that are left alone; the first that matches counts."""
        self.packed = packed

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        packing = self._packing_of(layer.prefix) if self._is_quantized(layer.prefix) else None
        return plain_linear(layer) if packing is None else _gptq_linear(layer, *packing)

    def head(self, layer: Linear) -> Iterable[Tensor]:
        return self.linear(layer) if self.head_is_quantized else super().head(layer)

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        """Marlin's kernels are chosen by the groups of the whole checkpoint, and the others know no rules."""
        if not _marlin_takes(layer, self.packing.group):
            return _wna16_experts(layer, *self.packing, zero_points=False)
        packing = self._packing_of(layer.prefix)
        return plain_experts(layer) if packing is None else _gptq_experts(layer, *packing)

    def _packing_of(self, prefix: str) -> Packing | None:
        return next((own for pattern, own in self.rules if compiled(pattern).match(prefix)), self.packing)

    def _is_quantized(self, prefix: str) -> bool:
        if not self.quantized:
            return True
        name = prefix.rpartition(".")[2]
        parts = [prefix.replace(name, part) for part in self.packed[name]] if name in self.packed else [prefix]
        found = {any(known in part for known in self.quantized) for part in parts}
        if len(found) > 1:
            raise Refused(f"quantization_config: only some parts of {prefix} are quantised; vLLM needs all or none.")
        return found.pop()


class Awq(Unquantized):
    """`AutoAWQConfig`."""

    name = "auto_awq"

    def __init__(self, bits: int, group: int, head: bool, skipped: Sequence[str], packed: Packed) -> None:
        self.bits, self.group = bits, group
        self.head_is_quantized = head
        self.ignored = Ignored(skipped, packed, "substring")
        self.ignored_experts = Ignored(skipped, {}, "substring")

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        if self.ignored.skips(layer.prefix):
            return plain_linear(layer)
        factor = 32 // self.bits
        if 0 < self.group < layer.input_size and layer.input_per_rank % self.group:
            raise DoesNotStart(
                f"{layer.prefix}: a rank's input size {layer.input_per_rank} is not a multiple of AWQ's group of "
                f"{self.group} at --tensor-parallel-size {layer.tensor_parallel_size}; choose another size."
            )
        groups = 1 if self.group == -1 else layer.input_per_rank // self.group
        if self.group == -1:
            groups = layer.input_per_rank // layer.input_size
        return (
            Tensor("qweight", layer.input_per_rank * (layer.rows // factor), _INT32),
            Tensor("qzeros", groups * (layer.rows // factor), _INT32),
            Tensor("scales", groups * layer.rows, layer.dtype),
        )

    def head(self, layer: Linear) -> Iterable[Tensor]:
        return self.linear(layer) if self.head_is_quantized else super().head(layer)

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        if self.ignored_experts.skips(layer.prefix):
            return plain_experts(layer)
        if not _marlin_takes(layer, self.group) or self.group == -1:
            return _wna16_experts(layer, self.bits, self.group, zero_points=True)
        factor, local = 32 // self.bits, layer.local
        up, groups = layer.shards * layer.intermediate, (layer.hidden // self.group, layer.intermediate // self.group)
        return (
            Tensor("w13_qweight", local * layer.hidden * (up // factor), _INT32),
            Tensor("w2_qweight", local * layer.intermediate * (layer.hidden // factor), _INT32),
            Tensor("w13_scales", local * groups[0] * up, layer.dtype),
            Tensor("w2_scales", local * groups[1] * layer.hidden, layer.dtype),
            Tensor("w13_qzeros", local * groups[0] * (up // factor), _INT32),
            Tensor("w2_qzeros", local * groups[1] * (layer.hidden // factor), _INT32),
        )


def _gptq_linear(layer: Linear, bits: int, group: int) -> tuple[Tensor, ...]:
    factor = 32 // bits
    split = layer.input_size != layer.input_per_rank
    size = layer.input_size if group == -1 else group
    groups = (layer.input_size if group == -1 and split else layer.input_per_rank) // size
    return (
        Tensor("qweight", (layer.input_per_rank // factor) * layer.rows, _INT32),
        Tensor("scales", groups * layer.rows, layer.dtype),
        Tensor("qzeros", groups * (layer.rows // factor), _INT32),
    )


def _gptq_experts(layer: Experts, bits: int, group: int) -> tuple[Tensor, ...]:
    """Experts for Marlin; biases are made room for whether or not the checkpoint has any."""
    factor, local = 32 // bits, layer.local
    up = layer.shards * layer.intermediate
    groups = (1, 1) if group == -1 else (layer.hidden // group, layer.intermediate // group)
    return (
        Tensor("w13_qweight", local * (layer.hidden // factor) * up, _INT32),
        Tensor("w2_qweight", local * (layer.intermediate // factor) * layer.hidden, _INT32),
        Tensor("w13_scales", local * groups[0] * up, layer.dtype),
        Tensor("w2_scales", local * groups[1] * layer.hidden, layer.dtype),
        Tensor("w13_qzeros", local * groups[0] * (up // factor), _INT32),
        Tensor("w2_qzeros", local * groups[1] * (layer.hidden // factor), _INT32),
        Tensor("w13_bias", local * up, layer.dtype),
        Tensor("w2_bias", local * layer.hidden, layer.dtype),
    )


def _wna16_experts(layer: Experts, bits: int, group: int, *, zero_points: bool) -> tuple[Tensor, ...]:
    """Experts that Marlin does not take (`MoeWNA16Method`): bytes, with groups halved until they divide the sizes."""
    size = group
    while size > 0 and (layer.intermediate % size or layer.hidden % size):
        size //= 2
    if size < 32:
        raise (Refused if group == -1 else DoesNotStart)(
            f"{layer.prefix}: a rank's intermediate size {layer.intermediate} has no groups of at least 32 under a "
            f"quantisation with groups of {group}; choose another --tensor-parallel-size."
        )
    factor, up, down = 8 // bits, layer.local * layer.shards * layer.intermediate, layer.local * layer.hidden
    groups = layer.hidden // size, layer.intermediate // size
    tensors = (
        Tensor("w13_qweight", up * (layer.hidden // factor), "uint8"),
        Tensor("w2_qweight", down * (layer.intermediate // factor), "uint8"),
        Tensor("w13_scales", up * groups[0], layer.dtype),
        Tensor("w2_scales", down * groups[1], layer.dtype),
    )
    if not zero_points:
        return tensors
    rows = layer.shards * layer.intermediate // factor
    return (
        *tensors,
        Tensor("w13_qzeros", layer.local * rows * groups[0], "uint8"),
        Tensor("w2_qzeros", layer.local * (layer.hidden // factor) * groups[1], "uint8"),
    )


def _marlin_takes(layer: Experts, group: int) -> bool:
    """`check_moe_marlin_supports_config`."""
    divides = group <= 0 or layer.intermediate % group == 0
    return layer.hidden % _MARLIN_HIDDEN == 0 and divides and group in _MARLIN_GROUPS
