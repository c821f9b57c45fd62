"""FP8 weights: one scale per matrix, or one per block of rows and columns.

Source: vllm/model_executor/layers/quantization/fp8.py and utils/fp8_utils.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from kvplan.errors import DoesNotStart, Refused
from kvplan.weights.parts import Experts, Linear, Tensor
from kvplan.weights.quant.base import Unquantized, cache_scales, expert_biases, plain_experts, plain_linear
from kvplan.weights.quant.skipped import Ignored

FP8 = "float8_e4m3fn"
_SMALLEST_BLOCK = 32
_FINER_BLOCKS_FROM = (8, 9)
"""The first compute capability with a kernel for blocks other than 128 x 128: Triton's (experts/triton_moe.py)."""


class Fp8(Unquantized):
    """`Fp8Config`: ``block`` is the size of a block (rows, columns), None for one scale per matrix."""

    name = "fp8"

    def __init__(
        self,
        ignored: Ignored,
        block: tuple[int, int] | None,
        static: bool,
        scale_dtype: str = "float32",
        mxfp4_experts: bool = False,
    ) -> None:
        self.ignored = ignored
        self.block = block
        self.static = static
        """Whether activations have scales in the checkpoint too."""
        self.scale_dtype = scale_dtype
        self.mxfp4_experts = mxfp4_experts
        """Whether the experts are stored in MXFP4."""

    def linear(self, layer: Linear) -> Iterable[Tensor]:
        if self.ignored.skips(layer.prefix):
            return plain_linear(layer)
        weight = Tensor("weight", layer.rows * layer.input_per_rank, FP8)
        if self.block is None:
            return (weight, *per_matrix_scales(layer, self.static))
        check_blocks(layer, self.block)
        return (weight, block_scale(layer, self.block, self.scale_dtype))

    def experts(self, layer: Experts) -> Iterable[Tensor]:
        if self.ignored.skips(layer.prefix):
            return plain_experts(layer)
        if self.mxfp4_experts:
            from kvplan.weights.quant.mxfp4 import packed_experts

            return packed_experts(layer)
        size = layer.local * layer.intermediate * layer.hidden
        return (
            Tensor("w13_weight", layer.shards * size, FP8),
            Tensor("w2_weight", size, FP8),
            *expert_biases(layer),
            *self._expert_scales(layer),
        )

    def _expert_scales(self, layer: Experts) -> tuple[Tensor, ...]:
        local = layer.local
        if self.block is not None:
            return block_expert_scales(layer, refined_block(layer, self.block))
        scales = (
            Tensor("w13_weight_scale", local * layer.shards, "float32"),
            Tensor("w2_weight_scale", local, "float32"),
        )
        if not self.static:
            return scales
        return (*scales, Tensor("w13_input_scale", local, "float32"), Tensor("w2_input_scale", local, "float32"))

    def attention(self, prefix: str, dtype: str, *, mla: bool = False) -> Iterable[Tensor]:
        return () if mla else cache_scales(dtype)


def per_matrix_scales(layer: Linear, static: bool) -> tuple[Tensor, ...]:
    """One scale per matrix that is fused in the layer, and one per matrix for its input."""
    count = len(layer.outputs_per_rank)
    scale = Tensor("weight_scale", count, "float32")
    return (scale, Tensor("input_scale", count, "float32")) if static else (scale,)


def block_scale(layer: Linear, block: tuple[int, int], dtype: str = "float32") -> Tensor:
    rows, columns = -(-layer.rows // block[0]), -(-layer.input_per_rank // block[1])
    return Tensor("weight_scale_inv", rows * columns, dtype)


def check_blocks(layer: Linear, block: tuple[int, int], *, lenient: bool = True) -> None:
    """DoesNotStart where a rank's part does not consist of whole blocks (`validate_fp8_block_shape`).

    ``lenient``: fused matrices may end within a block (`_maybe_allow_fp8_block_shape_mismatch`, of FP8's own config).
    Elsewhere only the last of those that are not split may.
    """
    rows, columns = block
    fused = len(layer.outputs_per_rank) > 1
    if lenient and fused and any(size % rows for size in layer.outputs_per_rank):
        return
    split = layer.tensor_parallel_size > 1
    by_rows = split and layer.input_size // layer.input_per_rank == layer.tensor_parallel_size
    if by_rows and layer.input_per_rank % columns:
        raise _uneven(layer, "input", layer.input_per_rank, columns)
    by_columns = split and layer.output_size // layer.rows == layer.tensor_parallel_size
    checked = layer.outputs_per_rank if by_columns else layer.outputs_per_rank[:-1]
    for size in checked:
        if size % rows:
            raise _uneven(layer, "output", size, rows)


def _uneven(layer: Linear, side: str, size: int, block: int) -> DoesNotStart:
    return DoesNotStart(
        f"{layer.prefix}: a rank's {side} size {size} is not a multiple of the quantisation's block of {block} at "
        f"--tensor-parallel-size {layer.tensor_parallel_size}; choose another size."
    )


def refined_block(layer: Experts, block: tuple[int, int]) -> tuple[int, int]:
    """The block of the experts' scales: finer where a rank's part of an expert has no whole blocks.

    (`refine_fp8_moe_block_shape` of fused_moe/oracle/fp8.py.) Refused where no size of at least 32 divides all.
    """
    rows, columns = block
    size = layer.intermediate
    if size % rows == 0 and (layer.tensor_parallel_size == 1 or size % columns == 0):
        return block
    finer = gcd(rows, columns, size, layer.hidden)
    if layer.backend != "auto":
        raise Refused(
            f"--moe-backend {layer.backend}: how it takes blocks of {rows} x {columns} that do not divide a rank's "
            f"intermediate size {size} is not known to kvplan; leave it out, or give --weights-bytes."
        )
    if finer < _SMALLEST_BLOCK:
        raise DoesNotStart(
            f"{layer.prefix}: a rank's intermediate size {size} is not a multiple of the quantisation's blocks "
            f"{rows} x {columns} at --tensor-parallel-size {layer.tensor_parallel_size}; choose another size."
        )
    if layer.capability < _FINER_BLOCKS_FROM:
        raise DoesNotStart(
            f"{layer.prefix}: a rank's intermediate size {size} has no whole blocks of {rows} x {columns} at "
            f"--tensor-parallel-size {layer.tensor_parallel_size}, and no kernel of compute capability "
            f"{layer.capability[0]}.{layer.capability[1]} takes finer ones (No FP8 MoE backend supports the deployment "
            "configuration); choose another size."
        )
    return finer, finer


def block_expert_scales(layer: Experts, block: tuple[int, int]) -> tuple[Tensor, ...]:
    rows, columns = block
    up = layer.shards * -(-layer.intermediate // rows) * -(-layer.hidden // columns)
    down = -(-layer.hidden // rows) * -(-layer.intermediate // columns)
    return (
        Tensor("w13_weight_scale_inv", layer.local * up, "float32"),
        Tensor("w2_weight_scale_inv", layer.local * down, "float32"),
    )
