"""From a checkpoint's quantisation to its scheme.

Source: `get_quantization_config` of vllm/model_executor/layers/quantization and each method's ``from_config``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.errors import KvplanError, Refused
from kvplan.weights.names import Packed, Renames
from kvplan.weights.quant.base import Unquantized
from kvplan.weights.quant.skipped import Ignored


def make(
    method: str | None, settings: Mapping[str, Any] | None, packed: Packed, renames: Renames | None
) -> Unquantized:
    """The scheme of ``method`` with the checkpoint's ``settings``. Refused by name where kvplan does not know it."""
    if method is None:
        return Unquantized()
    maker = _MAKERS.get(method)
    if settings is None:
        raise Refused(
            f"--quantization {method}: the weights that vLLM quantises as it loads them are not known to kvplan; give "
            "--weights-bytes."
        )
    if maker is None:
        raise Refused(f"the weights of quantisation {method} are not known to kvplan; give --weights-bytes.")
    made: Unquantized = maker(settings, packed, renames)
    return made


def _fp8(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.fp8 import Fp8

    names = names_in(settings, "ignored_layers") or names_in(settings, "modules_to_not_convert")
    ignored = Ignored(names if renames is None else renames.apply(names), packed)
    static = settings.get("activation_scheme") == "static"
    return Fp8(ignored, block_in(settings), static, mxfp4_experts=settings.get("store_dtype") == "mxfp4")


def _deepseek_v4(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    """``expert_dtype`` stands beside the scheme in the config, and the caller adds it."""
    from kvplan.weights.quant.deepseek_v4 import DeepseekV4

    if names_in(settings, "ignored_layers") or names_in(settings, "modules_to_not_convert"):
        raise Refused(
            "quantization_config: layers left out of DeepSeek-V4's scheme are not known to kvplan; give "
            "--weights-bytes."
        )
    static = settings.get("activation_scheme") == "static"
    algorithm = str(settings.get("moe_quant_algo") or "").upper()
    return DeepseekV4(block_in(settings), static, str(settings.get("expert_dtype", "fp4")), algorithm)


def _mxfp4(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.mxfp4 import Mxfp4

    return Mxfp4()


def _gpt_oss(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.mxfp4 import Mxfp4

    return Mxfp4(gpt_oss=True)


def _modelopt(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.modelopt import Excluded, ModelOpt, ModelOptMixed, expanded, quantized_layers

    nested = settings.get("quantization")
    inner = nested if isinstance(nested, Mapping) else settings
    names = names_in(inner, "ignore" if inner is settings and "ignore" in inner else "exclude_modules")
    excluded = Excluded(names if renames is None else renames.apply(expanded(names)), packed)
    algorithm, group = _algorithm(settings, inner), positive(inner, "group_size", 16)
    if algorithm != "MIXED_PRECISION":
        return ModelOpt(algorithm, excluded, group)
    layers = quantized_layers(inner.get("quantized_layers"))
    if renames is not None:
        layers = dict(zip(renames.apply(layers), layers.values(), strict=True))
    scheme = settings.get("kv_cache_scheme")
    cache = bool(inner.get("kv_cache_quant_algo")) if inner is not settings else isinstance(scheme, Mapping)
    return ModelOptMixed(layers, packed, excluded, _group(inner), cache)


def _algorithm(settings: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """quant_algo; weights alone are quantised where no group of layers has quantised inputs."""
    algorithm = inner.get("quant_algo")
    if not isinstance(algorithm, str):
        raise KvplanError(f"quantization_config: quant_algo must be a string, got {algorithm!r}.")
    groups = settings.get("config_groups")
    groups = list(groups.values()) if isinstance(groups, Mapping) else []
    plain_inputs = all(isinstance(group, Mapping) and group.get("input_activations") is None for group in groups)
    return "W4A16_NVFP4" if algorithm.upper() == "NVFP4" and groups and plain_inputs else algorithm.upper()


def _group(inner: Mapping[str, Any]) -> int:
    """Weights per scale of a mixture: its own, else the first NVFP4 layer's."""
    if inner.get("group_size") is not None:
        return positive(inner, "group_size", 16)
    for info in inner["quantized_layers"].values():
        if str(info.get("quant_algo")).upper() in ("NVFP4", "W4A16_NVFP4"):
            return positive(info, "group_size", 16)
    return 16


def _compressed(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.compressed import CompressedTensors
    from kvplan.weights.quant.compressed_groups import groups_of

    if settings.get("transform_config"):
        raise Refused("quantization_config: transform_config is not known to kvplan's weights; give --weights-bytes.")
    if settings.get("sparsity_config"):
        raise Refused("quantization_config: sparsity_config is not known to kvplan's weights; give --weights-bytes.")
    groups, ignored = groups_of(settings), names_in(settings, "ignore")
    if renames is not None:
        names = _renamed_paths(renames, groups)
        groups = dict(zip(names, groups.values(), strict=True))
        ignored = _renamed_paths(renames, ignored)
    cache = settings.get("kv_cache_scheme")
    strategy = str(cache.get("strategy") or "") if isinstance(cache, Mapping) else None
    return CompressedTensors(groups, ignored, packed, strategy)


def _renamed_paths(renames: Renames, names: Iterable[str]) -> list[str]:
    """Only paths of layers are renamed: neither classes' names nor expressions are."""
    return [name if name.startswith("re:") or "." not in name else renames.apply([name])[0] for name in names]


def _gptq(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.gptq import Gptq

    base = _gptq_packing(settings)
    rules: list[tuple[str, Any]] = []
    dynamic = settings.get("dynamic") or {}
    if not isinstance(dynamic, Mapping):
        raise KvplanError(f"quantization_config: dynamic must be a JSON object, got {dynamic!r}.")
    for key, own in dynamic.items():
        if str(key).startswith("-:"):
            rules.append((str(key)[2:], None))
        elif isinstance(own, Mapping):
            rules.append((str(key).removeprefix("+:"), _gptq_packing({**settings, **own})))
        else:
            raise KvplanError(f"quantization_config: the dynamic override {key!r} must be a JSON object, got {own!r}.")
    quantized = _flat(settings.get("modules_in_block_to_quantize"))
    if renames is not None:
        quantized = renames.apply(quantized)
    return Gptq(base, bool(settings.get("lm_head")), quantized, rules, packed)


def _gptq_packing(settings: Mapping[str, Any]) -> Any:
    """Bits and groups of a checkpoint, or of a rule for some of its layers. Refused as vLLM 0.33.0 refuses."""
    from kvplan.weights.quant.gptq import Packing

    found = Packing(positive(settings, "bits", 4), _group_size(settings, "group_size"))
    if settings.get("desc_act") and found.group != -1:
        raise Refused(
            "quantization_config: vLLM 0.33.0 does not load GPTQ with desc_act and groups; use another checkpoint."
        )
    if found.bits not in (4, 8) or settings.get("sym") is False:
        raise Refused(
            f"quantization_config: vLLM 0.33.0 loads symmetric GPTQ of 4 or 8 bits, not {found.bits} bits and so on."
        )
    return found


def _awq(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.gptq import Awq

    bits = positive(settings, "w_bit" if "w_bit" in settings else "bits", 4)
    group = _group_size(settings, "q_group_size" if "q_group_size" in settings else "group_size")
    if bits != 4:
        raise Refused(f"quantization_config: vLLM 0.33.0 loads AWQ of 4 bits, not {bits}.")
    skipped = names_in(settings, "modules_to_not_convert")
    if renames is not None:
        skipped = renames.apply(skipped)
    return Awq(bits, group, bool(settings.get("lm_head")), skipped, packed)


def _group_size(settings: Mapping[str, Any], key: str) -> int:
    """Inputs that share a scale; -1: all of them."""
    value = settings.get(key)
    return -1 if value == -1 and not isinstance(value, bool) else positive(settings, key, 128)


def _flat(value: Any) -> list[str]:
    """Names from a list that may hold lists of them."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise KvplanError(f"quantization_config: modules_in_block_to_quantize must be a list, got {value!r}.")
    return [name for item in value for name in _flat(item)]


def _mxfp8(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    """ModelOpt's MXFP8, or the scheme of that name which lists ``ignored_layers``."""
    if "quantization" in settings or settings.get("quant_algo"):
        return _modelopt(settings, packed, renames)
    inner = {"quant_algo": "MXFP8", "exclude_modules": names_in(settings, "ignored_layers")}
    return _modelopt({"quantization": inner}, packed, renames)


def _quark(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Unquantized:
    from kvplan.weights.quant.quark import make_quark

    return make_quark(settings, packed, renames)


def positive(settings: Mapping[str, Any], key: str, default: int) -> int:
    """A positive integer, or its default where the key is missing or null."""
    value = settings.get(key)
    value = default if value is None else value
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise KvplanError(f"quantization_config: {key} must be a positive integer, got {value!r}.")
    return value


def names_in(settings: Mapping[str, Any], key: str) -> list[str]:
    """A list of layer names, or an empty one where there is none."""
    value = settings.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise KvplanError(f"quantization_config: {key} must be a list of names, got {value!r}.")
    return value


def block_in(settings: Mapping[str, Any]) -> tuple[int, int] | None:
    """``weight_block_size`` as rows and columns."""
    value = settings.get("weight_block_size")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2 or not all(type(x) is int and 0 < x < 2**20 for x in value):
        raise KvplanError(f"quantization_config: weight_block_size must be two positive integers, got {value!r}.")
    return value[0], value[1]


_MAKERS = {
    "auto_awq": _awq,
    "auto_gptq": _gptq,
    "compressed-tensors": _compressed,
    "deepseek_v4_fp8": _deepseek_v4,
    "fp8": _fp8,
    "gpt_oss_mxfp4": _gpt_oss,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "modelopt_mxfp8": _mxfp8,
    "mxfp4": _mxfp4,
    "quark": _quark,
}
"""vLLM's method names."""
