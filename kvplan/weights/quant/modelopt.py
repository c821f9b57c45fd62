"""NVIDIA ModelOpt checkpoints: FP8, NVFP4, MXFP8, and a mixture of them by layer.

Source: vllm/model_executor/layers/quantization/modelopt.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from kvplan.errors import DoesNotStart, Refused
from kvplan.weights.names import Packed
from kvplan.weights.parts import Experts, Linear, Tensor
from kvplan.weights.quant.base import Unquantized, cache_scales, plain_experts, plain_linear
from kvplan.weights.quant.fp8 import FP8, block_expert_scales, per_matrix_scales, refined_block
from kvplan.weights.quant.skipped import Ignored

_MX = 32
_BLOCK = 128
_NEVER_QUANTIZED = ("vision_tower", "vision_model", "vit_large_projector")


class Excluded:
    """``exclude_modules``: names, parts of names and wildcards (`ModelOptQuantConfigBase.is_layer_excluded`)."""

    def __init__(self, names: Sequence[str], packed: Packed) -> None:
        self.names = tuple(names)
        self.exactly = Ignored(names, packed)

    def excludes(self, prefix: str) -> bool:
        """Whether the layer is left alone."""
        if not self.names:
            return False
        if self.exactly.skips(prefix):
            return True
        inner = prefix.removeprefix("language_model.")
        return any(
            (name != prefix and (name in prefix or name in inner)) or fnmatchcase(prefix, name) for name in self.names
        )


def expanded(names: Sequence[str]) -> list[str]:
    """Wildcards ``path*`` as the two names that vLLM makes of them before it renames."""
    out: list[str] = []
    for name in names:
        if len(name) >= 2 and name.endswith("*") and name[-2] != ".":
            out += [name[:-1], name[:-1] + ".*"]
        else:
            out.append(name)
    return out


class ModelOpt(Unquantized):
    """One algorithm for every layer that is not excluded."""

    name = "modelopt"

    def __init__(self, algorithm: str, excluded: Excluded, group: int = 16) -> None:
        self.algorithm = algorithm
        self.excluded = excluded
        self.group = group

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        if self._leaves_alone(layer.prefix):
            return plain_linear(layer)
        return linear_tensors(layer, self.algorithm, self.group)

    def head(self, layer: Linear) -> Iterable[Tensor]:
        return self.linear(layer)

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        if self._leaves_alone(layer.prefix):
            return plain_experts(layer)
        return expert_tensors(layer, self.algorithm, self.group)

    def attention(self, prefix: str, dtype: str, *, mla: bool = False) -> Iterable[Tensor]:
        return cache_scales(dtype)

    def _leaves_alone(self, prefix: str) -> bool:
        return self.excluded.excludes(prefix) or any(name in prefix for name in _NEVER_QUANTIZED)


class ModelOptMixed(Unquantized):
    """``quantized_layers`` names an algorithm for each layer (`ModelOptMixedPrecisionConfig`)."""

    name = "modelopt_mixed"

    def __init__(self, layers: Mapping[str, str], packed: Packed, excluded: Excluded, group: int, cache: bool) -> None:
        self.layers = layers
        self.folded = any("*" in name for name in layers)
        """Whether the names have * for every number, as in the bundled configs."""
        self.packed = packed
        self.excluded = excluded
        self.group = group
        self.cache = cache
        """Whether the checkpoint quantises the KV cache."""

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        algorithm = None if self.excluded.excludes(layer.prefix) else self.algorithm_of(layer.prefix)
        if algorithm is None:
            return plain_linear(layer)
        return linear_tensors(layer, algorithm, self.group)

    def head(self, layer: Linear) -> Iterable[Tensor]:
        return self.linear(layer)

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        algorithm = None if self.excluded.excludes(layer.prefix) else self.algorithm_of(layer.prefix)
        return plain_experts(layer) if algorithm is None else expert_tensors(layer, algorithm, self.group)

    def attention(self, prefix: str, dtype: str, *, mla: bool = False) -> Iterable[Tensor]:
        return cache_scales(dtype) if self.cache and not mla else ()

    def algorithm_of(self, prefix: str) -> str | None:
        """The algorithm of a layer (`_resolve_quant_algo`): its own, its parts', its children's, or its siblings'."""
        if self.folded:
            prefix = ".".join("*" if part.isdecimal() else part for part in prefix.split("."))
        candidates = _spellings(prefix)
        for candidate in candidates:
            if candidate in self.layers:
                return self.layers[candidate]
        base, _, name = prefix.rpartition(".")
        found = self._parts(_spellings(base), self.packed.get(name, ()), prefix)
        if found is not None:
            return found
        inside = [f"{candidate}." for candidate in candidates]
        if prefix.endswith(".experts"):
            inside.append(prefix.rpartition(".experts")[0] + ".")
        for start in inside:
            for key, algorithm in self.layers.items():
                if key.startswith(start):
                    return algorithm
        return self._parts(_spellings(base), _FUSED.get(name, ()), prefix)

    def _parts(self, bases: Sequence[str], parts: Sequence[str], prefix: str) -> str | None:
        found = {self.layers[f"{base}.{part}"] for base in bases for part in parts if f"{base}.{part}" in self.layers}
        if len(found) > 1:
            raise Refused(f"quantized_layers: the parts of {prefix} have different algorithms; vLLM needs one for all.")
        return found.pop() if found else None


_FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}
_OUTER, _INNER = "language_model.model.", "model.language_model."


def _spellings(prefix: str) -> list[str]:
    """The layer's name as checkpoints may spell it."""
    out = [prefix]
    if prefix.endswith(".lm_head"):
        out.append("lm_head")
    if prefix.startswith(_OUTER):
        out.append(_INNER + prefix.removeprefix(_OUTER))
    elif prefix.startswith(_INNER):
        out.append(_OUTER + prefix.removeprefix(_INNER))
    return out


def linear_tensors(layer: Linear, algorithm: str, group: int) -> Iterable[Tensor]:
    """Tensors of a linear layer under one of ModelOpt's algorithms. Refused for one that is not known."""
    maker = _LINEAR.get(algorithm)
    if maker is None:
        raise Refused(f"the weights of ModelOpt's {algorithm} are not known to kvplan; give --weights-bytes.")
    return maker(layer, group)


def expert_tensors(layer: Experts, algorithm: str, group: int) -> Iterable[Tensor]:
    """Tensors of routed experts under one of ModelOpt's algorithms. Refused for one that is not known."""
    maker = _EXPERTS.get(algorithm)
    if maker is None:
        raise Refused(f"the expert weights of ModelOpt's {algorithm} are not known to kvplan; give --weights-bytes.")
    return maker(layer, group)


def _fp8(layer: Linear, group: int) -> tuple[Tensor, ...]:
    return (Tensor("weight", layer.rows * layer.input_per_rank, FP8), *per_matrix_scales(layer, True))


def _fp8_channel(layer: Linear, group: int) -> tuple[Tensor, ...]:
    return (
        Tensor("weight", layer.rows * layer.input_per_rank, FP8),
        Tensor("weight_scale", layer.rows, "float32"),
    )


def _fp8_block(layer: Linear, group: int) -> tuple[Tensor, ...]:
    _check_multiple(layer.prefix, layer.input_per_rank, _BLOCK)
    blocks = -(-layer.rows // _BLOCK) * (layer.input_per_rank // _BLOCK)
    return (
        Tensor("weight", layer.rows * layer.input_per_rank, FP8),
        Tensor("weight_scale", blocks, "float32"),
    )


def _mxfp8(layer: Linear, group: int) -> tuple[Tensor, ...]:
    _check_multiple(layer.prefix, layer.input_per_rank, _MX)
    return (
        Tensor("weight", layer.rows * layer.input_per_rank, FP8),
        Tensor("weight_scale", layer.rows * (layer.input_per_rank // _MX), "uint8"),
    )


def nvfp4_linear(layer: Linear, group: int) -> tuple[Tensor, ...]:
    """Two weights in a byte, a scale in FP8 per group, and one more for the whole of each matrix and of its input."""
    _check_multiple(layer.prefix, layer.input_per_rank, 16)
    matrices = len(layer.outputs_per_rank)
    return (
        Tensor("weight", layer.rows * (layer.input_per_rank // 2), "uint8"),
        Tensor("weight_scale_2", matrices, "float32"),
        Tensor("weight_scale", layer.rows * (layer.input_per_rank // group), FP8),
        Tensor("input_scale", matrices, "float32"),
    )


def _w4a16_linear(layer: Linear, group: int) -> tuple[Tensor, ...]:
    """Weights alone in NVFP4; a scale of the input, as older checkpoints bring it, is made and dropped again."""
    *weights, scale = nvfp4_linear(layer, group)
    return (*weights, scale._replace(dtype=layer.dtype, loaded=False))


def _check_multiple(prefix: str, size: int, multiple: int) -> None:
    if size % multiple:
        raise DoesNotStart(
            f"{prefix}: a rank's input size {size} is not a multiple of {multiple}, which the quantisation needs; "
            "choose another --tensor-parallel-size."
        )


def _fp8_experts(layer: Experts, group: int) -> tuple[Tensor, ...]:
    size, local = layer.local * layer.intermediate * layer.hidden, layer.local
    return (
        Tensor("w13_weight", layer.shards * size, FP8),
        Tensor("w2_weight", size, FP8),
        Tensor("w13_weight_scale", local * layer.shards, "float32"),
        Tensor("w2_weight_scale", local, "float32"),
        Tensor("w13_input_scale", local, "float32"),
        Tensor("w2_input_scale", local, "float32"),
    )


def _fp8_block_experts(layer: Experts, group: int) -> tuple[Tensor, ...]:
    size = layer.local * layer.intermediate * layer.hidden
    block = refined_block(layer, (_BLOCK, _BLOCK))
    return (
        Tensor("w13_weight", layer.shards * size, FP8),
        Tensor("w2_weight", size, FP8),
        *block_expert_scales(layer, block),
    )


def nvfp4_experts(layer: Experts, group: int) -> tuple[Tensor, ...]:
    """Experts in NVFP4; FlashInfer's kernels keep the input scales of all experts on every rank."""
    up, down = layer.local * layer.shards * layer.intermediate, layer.local * layer.hidden
    scaled = layer.total if layer.capability[0] >= 10 else layer.local
    return (
        Tensor("w13_weight", up * (layer.hidden // 2), "uint8"),
        Tensor("w2_weight", down * (layer.intermediate // 2), "uint8"),
        Tensor("w13_weight_scale", up * (layer.hidden // group), FP8),
        Tensor("w2_weight_scale", down * (layer.intermediate // group), FP8),
        Tensor("w13_weight_scale_2", layer.local * layer.shards, "float32"),
        Tensor("w2_weight_scale_2", layer.local, "float32"),
        Tensor("w13_input_scale", scaled * layer.shards, "float32"),
        Tensor("w2_input_scale", scaled, "float32"),
    )


def mxfp8_experts(layer: Experts, group: int) -> tuple[Tensor, ...]:
    """Experts in FP8 with a byte of scale per 32 weights."""
    for size in (layer.hidden, layer.intermediate):
        _check_multiple(layer.prefix, size, _MX)
    up, down = layer.local * layer.shards * layer.intermediate, layer.local * layer.hidden
    return (
        Tensor("w13_weight", up * layer.hidden, FP8),
        Tensor("w2_weight", down * layer.intermediate, FP8),
        Tensor("w13_weight_scale", up * (layer.hidden // _MX), "uint8"),
        Tensor("w2_weight_scale", down * (layer.intermediate // _MX), "uint8"),
    )


_LINEAR: dict[str, Callable[[Linear, int], tuple[Tensor, ...]]] = {
    "FP8": _fp8,
    "FP8_PER_CHANNEL_PER_TOKEN": _fp8_channel,
    "FP8_PB_WO": _fp8_block,
    "MXFP8": _mxfp8,
    "NVFP4": nvfp4_linear,
    "W4A16_NVFP4": _w4a16_linear,
}
_EXPERTS: dict[str, Callable[[Experts, int], tuple[Tensor, ...]]] = {
    "FP8": _fp8_experts,
    "FP8_PB_WO": _fp8_block_experts,
    "FP8_BLOCK_SCALES": _fp8_block_experts,
    "NVFP4": nvfp4_experts,
    "W4A16_NVFP4": nvfp4_experts,
    "MXFP8": mxfp8_experts,
}


def quantized_layers(value: Any) -> dict[str, str]:
    """``quantized_layers`` as each layer's algorithm. Refused where it is not a non-empty map of them."""
    if not isinstance(value, Mapping) or not value:
        raise Refused("quantization_config: quantized_layers must map layers to their algorithms, and it is empty.")
    out: dict[str, str] = {}
    for name, info in value.items():
        algorithm = info.get("quant_algo") if isinstance(info, Mapping) else None
        if not isinstance(algorithm, str):
            raise Refused(f"quantization_config: quantized_layers names no quant_algo for {name}.")
        out[name] = algorithm.upper()
    return out
