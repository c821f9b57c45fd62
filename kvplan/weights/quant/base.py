"""What a quantisation decides: the tensors of a linear layer, of routed experts, of embeddings and of attention.

Source: vllm/model_executor/layers/quantization/base_config.py (`QuantizationConfig`, `QuantizeMethodBase`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kvplan.errors import Refused
from kvplan.weights.parts import Experts, Linear, Tensor

_TRTLLM_STEP = 128
_TRTLLM_ACTIVATIONS = ("silu", "relu2_no_mul")
_TRITON, _AUTO = ("triton", "flashinfer_cutlass"), ("auto", "humming", "marlin")
Packed = Mapping[str, Sequence[str]]
"""A fused layer's name with the names of its parts in the checkpoint: vLLM's ``packed_modules_mapping``."""


class Unquantized:
    """Weights in the model's dtype; every quantisation falls back to it for the layers that it leaves alone."""

    name = "none"

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        """Tensors of a linear layer without its bias (`UnquantizedLinearMethod`)."""
        return plain_linear(layer)

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        """Tensors of routed experts (`UnquantizedFusedMoEMethod`)."""
        return plain_experts(layer)

    def embedding(self, prefix: str, rows: int, size: int, dtype: str) -> Iterable[Tensor]:
        """Tensors of a vocabulary embedding."""
        return (Tensor("weight", rows * size, dtype),)

    def head(self, layer: Linear) -> Iterable[Tensor]:
        """Tensors of an output head without its bias."""
        return (Tensor("weight", layer.rows * layer.input_per_rank, layer.dtype),)

    def attention(self, prefix: str, dtype: str, *, mla: bool = False) -> Iterable[Tensor]:
        """Parameters of an attention layer: scales of a quantised cache (`BaseKVCacheMethod`)."""
        return ()


def plain_linear(layer: Linear) -> tuple[Tensor, ...]:
    return (Tensor("weight", layer.rows * layer.input_per_rank, layer.dtype),)


def expert_biases(layer: Experts, dtype: str | None = None) -> tuple[Tensor, ...]:
    if not layer.has_bias:
        return ()
    dtype = dtype or layer.dtype
    return (
        Tensor("w13_bias", layer.local * layer.shards * layer.intermediate, dtype),
        Tensor("w2_bias", layer.local * layer.hidden, dtype),
    )


def plain_experts(layer: Experts) -> tuple[Tensor, ...]:
    layer = layer._replace(intermediate=unquantized_size(layer))
    size = layer.local * layer.intermediate * layer.hidden
    return (
        Tensor("w13_weight", layer.shards * size, layer.dtype),
        Tensor("w2_weight", size, layer.dtype),
        *expert_biases(layer),
    )


def unquantized_size(layer: Experts) -> int:
    """The intermediate size as the kernel of unquantised experts wants it (`select_unquantized_moe_backend`).

    TensorRT-LLM's kernels, which only Blackwell's data center GPUs have, take multiples of 128.
    """
    size = -(-layer.intermediate // _TRTLLM_STEP) * _TRTLLM_STEP
    if size == layer.intermediate or layer.capability[0] != 10 or layer.activation not in _TRTLLM_ACTIVATIONS:
        return layer.intermediate
    if layer.backend in _TRITON or layer.renormalizes is False:
        return layer.intermediate
    if layer.backend not in _AUTO or layer.renormalizes is None or layer.batch_invariant:
        raise Refused(
            f"{layer.prefix}: whether vLLM pads a rank's intermediate size {layer.intermediate} on compute capability "
            f"{layer.capability[0]}.{layer.capability[1]} is not known to kvplan; give --weights-bytes."
        )
    return size


def cache_scales(dtype: str) -> tuple[Tensor, ...]:
    """One scale for q, k, v and the attention's probabilities, in the model's dtype."""
    return tuple(Tensor(f"{name}_scale", 1, dtype) for name in ("q", "k", "v", "prob"))
