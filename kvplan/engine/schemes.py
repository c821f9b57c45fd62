"""What a quantisation method takes of a checkpoint's scheme.

Source: ``from_config`` and ``__init__`` of the methods' classes in vllm/model_executor/layers/quantization (fp8.py,
modelopt.py, auto_gptq.py, auto_awq.py, compressed_tensors), and `normalize_and_validate_gptq_desc_act`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.hf.config import Config, shown

_GPTQ = (("bits",), ("group_size",), ("desc_act",), ("sym",))
_AWQ = (("w_bit", "bits"), ("q_group_size", "group_size"), ("zero_point",))
_REQUIRED: dict[str, tuple[tuple[str, ...], ...]] = {
    "fp8": (("activation_scheme",),),
    "deepseek_v4_fp8": (("activation_scheme",),),
    **dict.fromkeys(("auto_gptq", "gptq", "gptq_marlin"), _GPTQ),
    **dict.fromkeys(("auto_awq", "awq", "awq_marlin"), _AWQ),
    "inc": (("bits",), ("group_size",)),
    "moe_wna16": (("quant_method",), ("bits",), ("group_size",)),
}
"""Method -> the keys without which it does not load, each under any of its names."""
_ALGORITHMS = {
    "modelopt": ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"),
    "modelopt_fp4": ("NVFP4", "W4A16_NVFP4"),
    "modelopt_mxfp8": ("MXFP8",),
    "modelopt_mixed": ("MIXED_PRECISION",),
}
"""Method -> the quant_algo that its class takes."""


def check_scheme(root: Config, scheme: Mapping[str, Any], method: str) -> None:
    """KvplanError where the method's class does not take the scheme."""
    read = Config(scheme, f"{root.where}: quantization_config")
    for names in _REQUIRED.get(method, ()):
        if not any(name in scheme for name in names):
            raise root.error("quantization_config", f"has no {' or '.join(names)}, which {method} needs")
    if method in ("fp8", "deepseek_v4_fp8"):
        _fp8(read)
    elif method in ("auto_gptq", "gptq", "gptq_marlin"):
        _gptq(read)
    elif method in ("auto_awq", "awq", "awq_marlin"):
        _bits(read, "w_bit" if "w_bit" in read else "bits", (4,))
        _names(read, "modules_to_not_convert")
    elif method in _ALGORITHMS:
        _modelopt(root, read, method)
    elif method == "compressed-tensors":
        _compressed_tensors(read)


def _fp8(read: Config) -> None:
    kind = read.get("activation_scheme")
    if kind not in ("static", "dynamic"):
        raise read.error("activation_scheme", f"must be static or dynamic, got {shown(kind)}")
    if read.get("weight_block_size") is not None:
        for value in read.sequence("weight_block_size", length=2):
            if isinstance(value, float):
                raise read.error("weight_block_size", f"must have integers, got {shown(value)}")
            read.checked_integer("weight_block_size", value)
        if kind != "dynamic":
            raise read.error("weight_block_size", "needs activation_scheme dynamic")
    _names(read, "ignored_layers" if read.get("ignored_layers") else "modules_to_not_convert")


def _gptq(read: Config) -> None:
    """Activation ordering within groups is gone from vLLM."""
    _bits(read, "bits", (4, 8))
    if read.get("sym") not in (True,):
        raise read.error("sym", f"must be true, got {shown(read.get('sym'))}; vLLM loads symmetric weights only")
    read.section("dynamic")
    if orders_groups(read.data):
        problem = "is true, and vLLM no longer orders activations within groups; use a checkpoint without"
        raise read.error("desc_act", problem)


def orders_groups(scheme: Mapping[str, Any]) -> bool:
    """Whether a GPTQ scheme orders activations within groups, in all layers or in those of a rule."""
    rules, orders, size = scheme.get("dynamic"), scheme.get("desc_act"), scheme.get("group_size")
    every: list[tuple[Any, Any]] = [(orders, size)]
    for pattern, own in (rules if isinstance(rules, Mapping) else {}).items():
        if not pattern.startswith("-:") and isinstance(own, Mapping):
            every.append((own.get("desc_act", orders), own.get("group_size", size)))
    return any(ordered and group != -1 for ordered, group in every)


def _bits(read: Config, key: str, allowed: tuple[int, ...]) -> None:
    if read.get(key) not in allowed:
        names = " or ".join(map(str, allowed))
        raise read.error(key, f"must be {names}, got {shown(read.get(key))}")


def _modelopt(root: Config, read: Config, method: str) -> None:
    inner = read.section("quantization") if "quantization" in read else None
    if "quantization" in read and inner is None:
        raise read.error("quantization", "must be a JSON object, got None")
    own, excluded = (read, "ignore" if "ignore" in read else "exclude_modules")
    if inner is not None:
        own, excluded = inner, "exclude_modules"
        own.optional_text("kv_cache_quant_algo")
    algorithm = own.get("quant_algo")
    if not algorithm:
        raise root.error("quantization_config", f"has no quant_algo, which {method} needs")
    if str(algorithm).upper() not in _ALGORITHMS[method]:
        names = " or ".join(_ALGORITHMS[method])
        raise own.error("quant_algo", f"must be {names} for {method}, got {shown(algorithm)}")
    if excluded in own and own.get(excluded) is None:
        raise own.error(excluded, "must be a list, got None")
    _names(own, excluded)
    if own.get("group_size") is not None:
        _convertible(own, "group_size")
    if method == "modelopt_mixed" and not own.get("quantized_layers"):
        raise root.error("quantization_config", "has no quantized_layers, nor has an hf_quant_config.json beside it")
    for key in ("group_size", "kv_cache_quant_algo", "exclude_modules"):
        if method == "modelopt_fp4" and inner is not None and key not in inner:
            raise inner.error(key, "is missing, which NVFP4 needs")


def _convertible(read: Config, key: str) -> None:
    value = read.get(key)
    try:
        int(value)
    except (TypeError, ValueError, OverflowError):
        raise read.error(key, f"must be an integer, got {shown(value)}") from None


def _compressed_tensors(read: Config) -> None:
    groups = read.section("config_groups")
    for name in () if groups is None else groups.data:
        group = groups.section(name) if groups is not None else None
        if group is None:
            raise read.error("config_groups", f"must have a JSON object under {name!r}")
        targets = group.texts("targets")
        if len(targets) == 1 and targets[0].endswith("Attention"):
            continue
        weights = group.section("weights")
        if targets and weights is None:
            raise group.error("weights", "is missing, and vLLM cannot load the group without it")
        if weights is not None and weights.get("actorder") in ("group", "dynamic"):
            raise group.error("weights", "has an actorder by groups, which vLLM no longer loads")
    sparsity = read.section("sparsity_config") if read.get("sparsity_config") else None
    if sparsity is not None and sparsity.get("targets"):
        raise read.error("sparsity_config", "has targets, and vLLM no longer loads sparse weights")
    _names(read, "ignore")


def _names(read: Config, key: str) -> None:
    """Layers that a scheme leaves out: a list of names, or nothing."""
    if read.get(key):
        read.texts(key)
    elif read.get(key) not in (None, [], "", 0, False, {}):
        read.sequence(key)
