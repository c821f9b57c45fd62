"""The layers that hold weights, as one rank creates them: what a quantisation needs to know to say its tensors."""

from __future__ import annotations

from typing import NamedTuple

from kvplan import dtypes

_FURTHER = {"float8_e8m0fnu": 1, "bool": 1, "complex64": 8}


def element_bytes(dtype: str) -> int:
    """Bytes of one element. KeyError for a name that is not a torch dtype known here."""
    return _FURTHER[dtype] if dtype in _FURTHER else dtypes.size_of(dtype)


class Tensor(NamedTuple):
    """A parameter or buffer of one rank, or of a layer where the name is the layer's own (weight, weight_scale)."""

    name: str
    elements: int
    dtype: str
    loaded: bool = True
    """Whether the checkpoint brings it; vLLM computes the others, such as tables of positions."""

    @property
    def bytes(self) -> int:
        return self.elements * element_bytes(self.dtype)


class Linear(NamedTuple):
    """A linear layer (vllm/model_executor/layers/linear.py): sizes of the whole matrix and of the rank's part."""

    prefix: str
    """vLLM's name of the layer, which a quantisation's lists of layers are matched against."""
    input_size: int
    output_size: int
    input_per_rank: int
    outputs_per_rank: tuple[int, ...]
    """Output sizes of the logical matrices that are fused in it, such as q, k and v."""
    dtype: str
    """Dtype of its parameters where it is not quantised."""
    tensor_parallel_size: int
    """Ranks that it is split over; 1 where it is replicated."""

    @property
    def rows(self) -> int:
        return sum(self.outputs_per_rank)


class Experts(NamedTuple):
    """The routed experts of a layer (vllm/model_executor/layers/fused_moe): sizes of the rank's part."""

    prefix: str
    local: int
    """Experts on the rank."""
    total: int
    hidden: int
    intermediate: int
    """Intermediate size on the rank."""
    gated: bool
    """Whether gate and up projections are fused (w1 and w3), or there is an up projection alone."""
    has_bias: bool
    dtype: str
    tensor_parallel_size: int
    """Ranks that each expert is split over; 1 under expert parallelism."""
    activation: str = "silu"
    backend: str = "auto"
    """`--moe-backend`."""
    capability: tuple[int, int] = (9, 0)
    """Compute capability of the GPU: which kernel runs, and so how sizes are padded, follows from it."""
    projections: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    """Names of an expert's projections in checkpoints."""
    renormalizes: bool | None = None
    """Whether the chosen experts' weights are made to sum to one; None: not known to the model file."""
    batch_invariant: bool = False

    @property
    def shards(self) -> int:
        return 2 if self.gated else 1
