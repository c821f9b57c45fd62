"""compressed-tensors' config groups: how weights and inputs of a group of layers are quantised.

Source: `QuantizationArgs` of the package compressed-tensors and its defaults; the order in which
vllm/model_executor/layers/quantization/compressed_tensors tells schemes apart (`get_scheme`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.errors import KvplanError, Refused
from kvplan.weights.quant.patterns import compiled

ACTIVATION_FORMATS = frozenset(("naive-quantized", "int-quantized", "float-quantized", "nvfp4-pack-quantized"))
PACKED = "pack-quantized"
INT32 = 32


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


def is_nvfp4(args: Args | None) -> bool:
    return args is not None and args[:5] == (4, "float", True, "tensor_group", 16)


def is_mxfp4(args: Args) -> bool:
    return args[:5] == (4, "float", True, "group", 32)


def is_mxfp8(args: Args) -> bool:
    return args[:5] == (8, "float", True, "group", 32) and args.scale_dtype == "uint8"


def is_fp8(args: Args) -> bool:
    known = args.strategy in ("tensor", "channel", "block")
    return args.kind == "float" and args.symmetric and not args.dynamic and known


def is_int8(group: Group) -> bool:
    weights, inputs = group.weights, group.inputs
    if inputs is None or weights.kind == "float" or weights.bits != 8 or inputs.bits != 8:
        return False
    known = weights.strategy in ("tensor", "channel") and weights.symmetric and not weights.dynamic
    return known and inputs.strategy == ("token" if inputs.dynamic else "tensor")


def unknown(prefix: str, group: Group) -> Refused:
    weights = group.weights
    return Refused(
        f"{prefix}: compressed-tensors weights of {weights.bits} bits ({weights.kind}, {weights.strategy}, "
        f"{group.format}) are not known to kvplan; give --weights-bytes."
    )
