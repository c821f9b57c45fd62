"""AMD Quark checkpoints: FP8 with a scale per matrix or per row, and MXFP4; other schemes of it are refused.

Source: vllm/model_executor/layers/quantization/quark (`QuarkConfig._find_matched_config`, ``create_weights`` of the
schemes and of `QuarkMoEMethod`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from kvplan.errors import DoesNotStart, KvplanError, Refused
from kvplan.weights.names import Packed, Renames
from kvplan.weights.parts import Experts, Linear, Tensor
from kvplan.weights.quant.base import Unquantized, cache_scales, plain_experts, plain_linear
from kvplan.weights.quant.compressed_groups import matches
from kvplan.weights.quant.fp8 import FP8

_FP8, _MXFP4, _GROUP = "fp8_e4m3", "fp4", 32
_BY_MATRIX, _BY_ROW = "per_tensor", "per_channel"


class Scheme(NamedTuple):
    """How a layer's weights are stored."""

    dtype: str
    by: str
    """What shares a scale."""
    static: bool
    """Whether inputs have scales in the checkpoint too."""
    inputs_by: str


class Quark(Unquantized):
    """`QuarkConfig`."""

    name = "quark"

    def __init__(
        self,
        default: Mapping[str, Any],
        by_layer: Mapping[str, Mapping[str, Any]],
        excluded: Sequence[str],
        packed: Packed,
    ) -> None:
        self.default = default
        self.by_layer = by_layer
        self.excluded = tuple(excluded)
        self.packed = packed

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        if self._leaves_alone(layer.prefix):
            return plain_linear(layer)
        return _linear(layer, scheme_of(layer.prefix, self._config_of(layer.prefix)))

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        """Experts are left alone as soon as one of their parts is."""
        inner = f"{layer.prefix}."
        if any(name == layer.prefix or name.startswith(inner) for name in self.excluded):
            return plain_experts(layer)
        if self._leaves_alone(layer.prefix):
            return plain_experts(layer)
        return _experts(layer, scheme_of(layer.prefix, self._config_of(layer.prefix)))

    def attention(self, prefix: str, dtype: str, *, mla: bool = False) -> Iterable[Tensor]:
        return () if mla or self._leaves_alone(prefix) else cache_scales(dtype)

    def _leaves_alone(self, prefix: str) -> bool:
        if self._is_excluded(prefix):
            return True
        name = prefix.rpartition(".")[2]
        if name not in self.packed:
            return False
        found = {self._is_excluded(prefix.replace(name, part)) for part in self.packed[name]}
        if len(found) > 1:
            raise Refused(f"quantization_config: only some parts of {prefix} are excluded; vLLM needs all or none.")
        return found.pop()

    def _is_excluded(self, name: str) -> bool:
        return any(matches(name, target) for target in self.excluded)

    def _config_of(self, prefix: str) -> Mapping[str, Any]:
        """The layer's own scheme, else the one for all layers; parts of a fused layer need the same."""
        name = prefix.rpartition(".")[2]
        parts = self.packed.get(name, (name,))
        found = [self._named(prefix.replace(name, part)) or self.default for part in parts]
        if any(config != found[0] for config in found):
            raise Refused(f"quantization_config: parts of {prefix} are quantised in different ways.")
        return found[0]

    def _named(self, name: str) -> Mapping[str, Any] | None:
        """A pattern without a wildcard is taken where it contains the layer's name."""
        for pattern, config in self.by_layer.items():
            if fnmatchcase(name, pattern) if "*" in pattern else name in pattern:
                return config
        return None


def scheme_of(prefix: str, config: Mapping[str, Any]) -> Scheme:
    """The scheme of a layer. Refused where kvplan does not know it."""
    weight, inputs = _only(config.get("weight")), _only(config.get("input_tensors"))
    if config.get("output_tensors") or config.get("bias"):
        raise Refused(f"quantization_config: {prefix}: vLLM does not load Quark's quantised outputs or biases.")
    unknown = Refused(f"{prefix}: this scheme of Quark's is not known to kvplan's weights; give --weights-bytes.")
    if not isinstance(weight, Mapping) or weight.get("is_dynamic"):
        raise unknown
    dtype, by = weight.get("dtype"), weight.get("qscheme")
    if dtype == _MXFP4 and by == "per_group" and weight.get("group_size") == _GROUP:
        known = inputs is None or (inputs.get("dtype") == _MXFP4 and inputs.get("is_dynamic"))
        if weight.get("scale_format") == "e8m0" and known:
            return Scheme(_MXFP4, by, False, "" if inputs is None else str(inputs.get("qscheme")))
    if dtype == _FP8 and by in (_BY_MATRIX, _BY_ROW) and inputs is not None and inputs.get("dtype") == _FP8:
        static = not inputs.get("is_dynamic")
        inputs_by = _BY_ROW if inputs.get("qscheme") == _BY_ROW else _BY_MATRIX
        if not static or inputs.get("qscheme") == _BY_MATRIX:
            return Scheme(_FP8, by, static, inputs_by)
    raise unknown


def _only(value: Any) -> Any:
    """A scheme that may stand in a list of its own. Several stand for a scheme that is not known here."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or isinstance(value, Mapping):
        return value
    raise Refused("quantization_config: Quark's schemes of several steps are not known to kvplan's weights.")


def _linear(layer: Linear, scheme: Scheme) -> tuple[Tensor, ...]:
    if scheme.dtype == _MXFP4:
        if layer.input_per_rank % _GROUP:
            raise DoesNotStart(
                f"{layer.prefix}: a rank's input size {layer.input_per_rank} is not a multiple of MXFP4's group of "
                f"{_GROUP} at --tensor-parallel-size {layer.tensor_parallel_size}; choose another size."
            )
        return (
            Tensor("weight", layer.rows * (layer.input_per_rank // 2), "uint8"),
            Tensor("weight_scale", layer.rows * (layer.input_per_rank // _GROUP), "uint8"),
        )
    matrices = len(layer.outputs_per_rank)
    tensors = (
        Tensor("weight", layer.rows * layer.input_per_rank, FP8),
        Tensor("weight_scale", layer.rows if scheme.by == _BY_ROW else matrices, "float32"),
    )
    return (*tensors, Tensor("input_scale", matrices, "float32")) if scheme.static else tensors


def _experts(layer: Experts, scheme: Scheme) -> tuple[Tensor, ...]:
    if scheme.dtype != _FP8 or layer.has_bias:
        raise Refused(
            f"{layer.prefix}: Quark's experts other than FP8 without biases are not known to kvplan's weights."
        )
    if scheme.by != scheme.inputs_by:
        raise DoesNotStart(
            f"{layer.prefix}: vLLM takes FP8 experts of Quark with one kind of scale for weights and inputs."
        )
    up, down = layer.local * layer.shards * layer.intermediate, layer.local * layer.hidden
    rows = scheme.by == _BY_ROW
    tensors = (
        Tensor("w13_weight", up * layer.hidden, FP8),
        Tensor("w2_weight", down * layer.intermediate, FP8),
        Tensor("w13_weight_scale", up if rows else layer.local * layer.shards, "float32"),
        Tensor("w2_weight_scale", down if rows else layer.local, "float32"),
    )
    if not scheme.static:
        return tensors
    inputs = (Tensor(f"{name}_input_scale", layer.local, "float32") for name in ("w13", "w2"))
    return (*tensors, *inputs)


def make_quark(settings: Mapping[str, Any], packed: Packed, renames: Renames | None) -> Quark:
    """From a checkpoint's settings; what they say about the cache's scales is taken out of the layers' schemes."""
    excluded = _names(settings.get("exclude"), "exclude")
    export = settings.get("export")
    if not isinstance(export, Mapping):
        raise KvplanError(f"quantization_config: Quark's export must be an object, got {export!r}.")
    cache = [*_names(export.get("kv_cache_group"), "kv_cache_group"), "*q_proj"]
    default, by_layer = settings.get("global_quant_config"), settings.get("layer_quant_config") or {}
    if not isinstance(default, Mapping) or not isinstance(by_layer, Mapping):
        raise KvplanError("quantization_config: Quark's global_quant_config and layer_quant_config must be objects.")
    found: dict[str, Mapping[str, Any]] = {}
    for pattern, config in by_layer.items():
        if not isinstance(config, Mapping):
            raise KvplanError(f"quantization_config: layer_quant_config: {pattern} must be an object, got {config!r}.")
        of_cache = pattern == cache[-1] or any(fnmatchcase(pattern, name) for name in cache[:-1])
        name = pattern if renames is None else renames.apply([pattern])[0]
        found[name] = {**config, "output_tensors": None} if of_cache and len(cache) > 1 else config
    return Quark(default, found, excluded if renames is None else renames.apply(excluded), packed)


def _names(value: Any, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise KvplanError(f"quantization_config: Quark's {key} must be a list of names, got {value!r}.")
    return value
