"""compressed-tensors checkpoints: groups of layers, each with its own way to store weights.

Source: vllm/model_executor/layers/quantization/compressed_tensors (`CompressedTensorsConfig.get_scheme` and the
``create_weights`` of its schemes); the defaults of `QuantizationArgs` of the package compressed-tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kvplan.errors import DoesNotStart, KvplanError, Refused
from kvplan.weights.names import Packed
from kvplan.weights.parts import Experts, Linear, Tensor
from kvplan.weights.quant.base import Unquantized, plain_experts, plain_linear
from kvplan.weights.quant.compressed_experts import expert_tensors
from kvplan.weights.quant.compressed_groups import (
    ACTIVATION_FORMATS,
    INT32,
    PACKED,
    Args,
    Group,
    is_fp8,
    is_int8,
    is_mxfp4,
    is_mxfp8,
    is_nvfp4,
    matches,
    unknown,
)
from kvplan.weights.quant.fp8 import FP8, block_scale, check_blocks


class CompressedTensors(Unquantized):
    """`CompressedTensorsConfig`."""

    name = "compressed-tensors"

    def __init__(
        self, groups: Mapping[str, Group], ignored: Sequence[str], packed: Packed, cache_strategy: str | None
    ) -> None:
        self.groups = groups
        self.ignored = tuple(ignored)
        self.plain_ignored = frozenset(name for name in ignored if not name.startswith("re:"))
        self.patterns = tuple(name for name in ignored if name.startswith("re:"))
        self.packed = packed
        self.cache_strategy = cache_strategy

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        group = self.group_of(layer.prefix, "Linear")
        return plain_linear(layer) if group is None else linear_tensors(layer, group)

    def head(self, layer: Linear) -> Iterable[Tensor]:
        group = self.group_of(layer.prefix, "ParallelLMHead")
        return super().head(layer) if group is None else linear_tensors(layer, group)

    def embedding(self, prefix: str, rows: int, size: int, dtype: str) -> Iterable[Tensor]:
        group = self.group_of(prefix, "VocabParallelEmbedding")
        if group is None:
            return super().embedding(prefix, rows, size, dtype)
        return packed_tensors(Linear(prefix, size, rows, size, (rows,), dtype, 1), group.weights)

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        """Routed experts are what their first expert's projections are."""
        found = [self.group_of(f"{layer.prefix}.0.{name}", "RoutedExperts") for name in layer.projections]
        if any(group != found[0] for group in found):
            raise Refused(f"quantization_config: the projections of {layer.prefix} are quantised in different ways.")
        return plain_experts(layer) if found[0] is None else expert_tensors(layer, found[0])

    def attention(self, prefix: str, dtype: str, *, mla: bool = False) -> Iterable[Tensor]:
        if mla:
            return ()
        if self.cache_strategy == "attn_head":
            raise Refused("kv_cache_scheme: scales per head are not known to kvplan's weights; give --weights-bytes.")
        scales = tuple(Tensor(f"{name}_scale", 1, "float32") for name in ("k", "v", "q"))
        return (*scales, *(Tensor(f"{name}_zero_point", 1, dtype) for name in ("k", "v", "q")))

    def group_of(self, prefix: str, kind: str) -> Group | None:
        """The layer's group: by its name, by its parts' names, by its class; None where it is ignored."""
        if self._ignores(prefix):
            return None
        target = self._first(prefix) or self._first_of_parts(prefix) or self._of_class(kind)
        return None if target is None else self.groups[target]

    def _of_class(self, kind: str) -> str | None:
        targets = dict.fromkeys(self.groups)
        if kind == "RoutedExperts" and "Linear" in targets and "RoutedExperts" not in targets:
            return "Linear"
        return next((target for target in targets if matches(kind, target, contained=True)), None)

    def _first(self, name: str) -> str | None:
        return next((target for target in self.groups if matches(name, target)), None)

    def _first_of_parts(self, prefix: str) -> str | None:
        fused = next((name for name in self.packed if prefix.endswith(name)), None)
        if fused is None:
            return None
        found = [self._first(prefix.replace(fused, part)) for part in self.packed[fused]]
        return found[0] if all(found) else None

    def _ignores(self, prefix: str) -> bool:
        if not self.ignored:
            return False
        if self._is_ignored(prefix):
            return True
        name = prefix.rpartition(".")[2]
        if name not in self.packed:
            return False
        found = {self._is_ignored(prefix.replace(name, part)) for part in self.packed[name]}
        if len(found) > 1:
            raise Refused(f"quantization_config: only some parts of {prefix} are ignored; vLLM needs all or none.")
        return found.pop()

    def _is_ignored(self, name: str) -> bool:
        return name in self.plain_ignored or any(matches(name, pattern) for pattern in self.patterns)


def linear_tensors(layer: Linear, group: Group) -> tuple[Tensor, ...]:
    """Tensors of a linear layer in the order in which vLLM tells the schemes apart. Refused for an unknown one."""
    weights, inputs = group.weights, group.inputs
    if is_nvfp4(weights):
        return _nvfp4(layer, inputs)
    if is_mxfp4(weights):
        return _mx(layer, "weight_packed", layer.input_per_rank // 2, "uint8")
    if is_mxfp8(weights):
        return _mx(layer, "weight", layer.input_per_rank, FP8)
    if weights.kind == "int" and inputs is None and not weights.dynamic and group.format == PACKED:
        return packed_tensors(layer, weights)
    if group.format in ACTIVATION_FORMATS and is_fp8(weights):
        return _fp8(layer, weights, inputs)
    if group.format in ACTIVATION_FORMATS and is_int8(group) and inputs is not None:
        return _int8(layer, weights, inputs)
    raise unknown(layer.prefix, group)


def _nvfp4(layer: Linear, inputs: Args | None) -> tuple[Tensor, ...]:
    matrices = len(layer.outputs_per_rank)
    tensors = (
        Tensor("weight_packed", layer.rows * (layer.input_per_rank // 2), "uint8"),
        Tensor("weight_global_scale", matrices, "float32"),
        Tensor("weight_scale", layer.rows * (layer.input_per_rank // 16), FP8),
    )
    return tensors if inputs is None else (*tensors, Tensor("input_global_scale", matrices, "float32"))


def _mx(layer: Linear, name: str, width: int, dtype: str) -> tuple[Tensor, ...]:
    return (
        Tensor(name, layer.rows * width, dtype),
        Tensor("weight_scale", layer.rows * (layer.input_per_rank // 32), "uint8"),
    )


def _fp8(layer: Linear, weights: Args, inputs: Args | None) -> tuple[Tensor, ...]:
    matrices = len(layer.outputs_per_rank)
    weight = Tensor("weight", layer.rows * layer.input_per_rank, FP8)
    if weights.strategy == "block":
        if weights.block is None:
            raise KvplanError("quantization_config: the block strategy needs a block_structure.")
        check_blocks(layer, weights.block, lenient=False)
        scale = block_scale(layer, weights.block)._replace(name="weight_scale")
    else:
        scale = Tensor("weight_scale", layer.rows if weights.strategy == "channel" else matrices, "float32")
    if inputs is None or inputs.dynamic:
        return weight, scale
    return weight, scale, Tensor("input_scale", matrices, "float32")


def _int8(layer: Linear, weights: Args, inputs: Args) -> tuple[Tensor, ...]:
    count = layer.rows if weights.strategy == "channel" else len(layer.outputs_per_rank)
    tensors = (
        Tensor("weight", layer.rows * layer.input_per_rank, "int8"),
        Tensor("weight_scale", count, "float32"),
    )
    if inputs.dynamic:
        return tensors
    scale = (*tensors, Tensor("input_scale", 1, "float32"))
    return scale if inputs.symmetric else (*scale, Tensor("input_zero_point", 1, "int8"))


def packed_tensors(layer: Linear, weights: Args) -> tuple[Tensor, ...]:
    """Integers packed into int32, with a scale per group or per row (`CompressedTensorsWNA16`)."""
    if weights.strategy not in ("group", "channel") or not 1 < weights.bits <= 8:
        raise unknown(layer.prefix, Group(weights, None, None, PACKED))
    group = weights.group if weights.group not in (None, -1) else None
    if group is not None and layer.input_per_rank % group:
        raise DoesNotStart(
            f"{layer.prefix}: a rank's input size {layer.input_per_rank} is not a multiple of the quantisation's "
            f"group of {group}; choose another --tensor-parallel-size."
        )
    groups = 1 if group is None else layer.input_per_rank // group
    words = -(-layer.input_per_rank * weights.bits // INT32)
    tensors = (
        Tensor("weight_packed", layer.rows * words, "int32"),
        Tensor("weight_scale", layer.rows * groups, layer.dtype),
        Tensor("weight_shape", 2, "int64"),
    )
    if weights.symmetric:
        return tensors
    zeros = -(-layer.rows * weights.bits // INT32) * groups
    return (*tensors, Tensor("weight_zero_point", zeros, "int32"))
