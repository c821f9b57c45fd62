"""compressed-tensors checkpoints: groups of layers, each with its own way to store weights.

Source: vllm/model_executor/layers/quantization/compressed_tensors (`CompressedTensorsConfig.get_scheme` and the
``create_weights`` of its schemes); the defaults of `QuantizationArgs` of the package compressed-tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kvplan.errors import KvplanError, Refused
from kvplan.weights.names import Packed
from kvplan.weights.parts import Experts, Linear, Tensor
from kvplan.weights.quant.base import Unquantized, expert_biases, plain_experts, plain_linear
from kvplan.weights.quant.fp8 import FP8, block_scale, check_blocks
from kvplan.weights.quant.patterns import compiled

_ACTIVATION_FORMATS = frozenset(("naive-quantized", "int-quantized", "float-quantized", "nvfp4-pack-quantized"))
_PACKED = "pack-quantized"
_INT32 = 32


class Args(NamedTuple):
    """`QuantizationArgs`: how weights or inputs are quantised."""

    bits: int = 8
    kind: str = "int"
    symmetric: bool = True
    strategy: str = "tensor"
    group: int | None = None
    block: tuple[int, int] | None = None
    dynamic: bool = False
    scale_dtype: str = ""


class Group(NamedTuple):
    """A config group as it applies to a layer."""

    weights: Args
    inputs: Args | None
    outputs: Args | None
    format: str


def args_of(value: Any) -> Args | None:
    """Checked arguments, or None for a null. KvplanError where a value is of the wrong kind."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise KvplanError(f"quantization_config: config_groups must hold objects, got {value!r}.")
    group, strategy = value.get("group_size"), value.get("strategy")
    for key, number in (("num_bits", value.get("num_bits", 8)), ("group_size", group)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not -1 <= number < 2**20):
            raise KvplanError(f"quantization_config: {key} must be an integer, got {number!r}.")
    if strategy is None:
        strategy = "tensor" if group is None else "channel" if group == -1 else "group"
    return Args(
        bits=value.get("num_bits", 8),
        kind=str(value.get("type", "int")).lower(),
        symmetric=bool(value.get("symmetric", True)),
        strategy=str(strategy).lower(),
        group=group,
        block=_block(value.get("block_structure")),
        dynamic=bool(value.get("dynamic")),
        scale_dtype=str(value.get("scale_dtype") or "").removeprefix("torch."),
    )


def _block(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    parts = value.split("x") if isinstance(value, str) else value
    try:
        rows, columns = (int(part) for part in parts)
    except (TypeError, ValueError):
        rows = columns = 0
    if not (0 < rows < 2**20 and 0 < columns < 2**20):
        raise KvplanError(f"quantization_config: block_structure must be two positive integers, got {value!r}.")
    return rows, columns


def groups_of(settings: Mapping[str, Any]) -> dict[str, Group]:
    """Each target with its group, in the checkpoint's order; groups for attention alone are left out."""
    found: dict[str, Group] = {}
    groups = settings.get("config_groups")
    if groups is not None and not isinstance(groups, Mapping):
        raise KvplanError(f"quantization_config: config_groups must be an object, got {groups!r}.")
    for name, value in (groups or {}).items():
        targets = value.get("targets") if isinstance(value, Mapping) else None
        if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
            raise KvplanError(f"quantization_config: config_groups: {name} must list its targets, got {targets!r}.")
        if len(targets) == 1 and targets[0].endswith("Attention"):
            continue
        weights = args_of(value.get("weights"))
        if weights is None:
            raise KvplanError(f"quantization_config: config_groups: {name} has no weights.")
        style = str(value.get("format") or settings.get("format") or "")
        inputs = args_of(value.get("input_activations"))
        group = Group(weights, inputs, args_of(value.get("output_activations")), style)
        found.update(dict.fromkeys(targets, group))
    return found


def matches(name: str, target: str, *, contained: bool = False) -> bool:
    """Whether a layer's or a class's name is a target: equal, by an expression after ``re:``, or contained."""
    if target.startswith("re:"):
        return compiled(target[3:]).match(name) is not None
    return target.lower() in name.lower() if contained else target == name


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


def _is_nvfp4(args: Args | None) -> bool:
    return args is not None and args[:5] == (4, "float", True, "tensor_group", 16)


def _is_mxfp4(args: Args) -> bool:
    return args[:5] == (4, "float", True, "group", 32)


def _is_mxfp8(args: Args) -> bool:
    return args[:5] == (8, "float", True, "group", 32) and args.scale_dtype == "uint8"


def _is_fp8(args: Args) -> bool:
    known = args.strategy in ("tensor", "channel", "block")
    return args.kind == "float" and args.symmetric and not args.dynamic and known


def _is_int8(group: Group) -> bool:
    weights, inputs = group.weights, group.inputs
    if inputs is None or weights.kind == "float" or weights.bits != 8 or inputs.bits != 8:
        return False
    known = weights.strategy in ("tensor", "channel") and weights.symmetric and not weights.dynamic
    return known and inputs.strategy == ("token" if inputs.dynamic else "tensor")


def _unknown(prefix: str, group: Group) -> Refused:
    weights = group.weights
    return Refused(
        f"{prefix}: compressed-tensors weights of {weights.bits} bits ({weights.kind}, {weights.strategy}, "
        f"{group.format}) are not known to kvplan; give --weights-bytes."
    )


def linear_tensors(layer: Linear, group: Group) -> tuple[Tensor, ...]:
    """Tensors of a linear layer in the order in which vLLM tells the schemes apart. Refused for an unknown one."""
    weights, inputs = group.weights, group.inputs
    if _is_nvfp4(weights):
        return _nvfp4(layer, inputs)
    if _is_mxfp4(weights):
        return _mx(layer, "weight_packed", layer.input_per_rank // 2, "uint8")
    if _is_mxfp8(weights):
        return _mx(layer, "weight", layer.input_per_rank, FP8)
    if weights.kind == "int" and inputs is None and not weights.dynamic and group.format == _PACKED:
        return packed_tensors(layer, weights)
    if group.format in _ACTIVATION_FORMATS and _is_fp8(weights):
        return _fp8(layer, weights, inputs)
    if group.format in _ACTIVATION_FORMATS and _is_int8(group) and inputs is not None:
        return _int8(layer, weights, inputs)
    raise _unknown(layer.prefix, group)


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
        check_blocks(layer, weights.block)
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
        raise _unknown(layer.prefix, Group(weights, None, None, _PACKED))
    group = weights.group if weights.group not in (None, -1) else None
    if group is not None and layer.input_per_rank % group:
        raise Refused(
            f"{layer.prefix}: a rank's input size {layer.input_per_rank} is not a multiple of the quantisation's "
            f"group of {group}; choose another --tensor-parallel-size."
        )
    groups = 1 if group is None else layer.input_per_rank // group
    words = -(-layer.input_per_rank * weights.bits // _INT32)
    tensors = (
        Tensor("weight_packed", layer.rows * words, "int32"),
        Tensor("weight_scale", layer.rows * groups, layer.dtype),
        Tensor("weight_shape", 2, "int64"),
    )
    if weights.symmetric:
        return tensors
    zeros = -(-layer.rows * weights.bits // _INT32) * groups
    return (*tensors, Tensor("weight_zero_point", zeros, "int32"))


def expert_tensors(layer: Experts, group: Group) -> tuple[Tensor, ...]:
    """Tensors of routed experts. Refused for a scheme that is not known."""
    weights, inputs = group.weights, group.inputs
    if _is_mxfp4(weights) and inputs is None:
        return _expert_mx(layer, "_weight_packed", 2, "uint8")
    if _is_mxfp8(weights):
        return _expert_mx(layer, "_weight", 1, FP8)
    packed = weights.kind == "int" and weights.strategy in ("group", "channel") and group.format == _PACKED
    if packed and inputs is None and not weights.dynamic and weights.bits in (4, 8):
        return _expert_packed(layer, weights)
    if _is_nvfp4(weights):
        return _expert_nvfp4(layer)
    if _is_fp8(weights) and inputs is not None:
        return _expert_fp8(layer, weights, inputs)
    if _is_int8(group) and inputs is not None and inputs.dynamic and weights.strategy == "channel":
        return _expert_int8(layer)
    raise _unknown(layer.prefix, group)


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
    factor = _INT32 // weights.bits
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
        rows = layer.shards * layer.intermediate // factor
        tensors.append(Tensor("w13_weight_zero_point", layer.local * rows * groups[0], "int32"))
        zeros = layer.local * (layer.hidden // factor) * groups[1]
        tensors.append(Tensor("w2_weight_zero_point", zeros, "int32"))
    return tuple(tensors)


def _groups(layer: Experts, weights: Args) -> tuple[int, int]:
    """Scales of a row of the up and of the down projection."""
    if weights.strategy == "channel":
        return 1, 1
    size = weights.group or 0
    if size <= 0 or layer.hidden % size or layer.intermediate % size:
        raise Refused(
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
        if not rows or layer.intermediate % rows or (split and layer.intermediate % columns):
            raise Refused(
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
