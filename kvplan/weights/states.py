"""Layers that keep a state instead of keys and values: Mamba 1 and 2, short convolutions.

vLLM: model_executor/layers/mamba/mamba_mixer.py, mamba_mixer2.py, short_conv.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.weights.builder import Builder

_FLOAT = "float32"


def mamba2(
    b: Builder,
    prefix: str,
    *,
    inner: int,
    state: int,
    kernel: int,
    groups: int,
    heads: int,
    conv_bias: bool,
    bias: bool,
    norm: bool = True,
) -> None:
    """`MambaMixer2`; where the groups do not divide over the ranks, one group is repeated on each.

    What goes in is then one matrix to the quantisation, else five.
    """
    hidden, ranks = b.config.integer("hidden_size"), b.tensor_parallel_size
    repeated = groups % ranks != 0
    if repeated:
        if groups != 1:
            raise Refused(
                f"{b.config.where}: {groups} state groups cannot be split over --tensor-parallel-size {ranks}; "
                "choose a size that divides them."
            )
        groups = ranks
    grouped = groups * state
    own_heads = b.divide(heads, "the state heads")
    channels = b.divide(inner, "the state's channels") + 2 * grouped // ranks
    b.add(f"{prefix}.A", own_heads, _FLOAT)
    b.add(f"{prefix}.D", own_heads)
    b.add(f"{prefix}.dt_bias", own_heads)
    b.add(f"{prefix}.conv1d.weight", channels * kernel)
    if conv_bias:
        b.add(f"{prefix}.conv1d.bias", channels)
    b.buffer(f"{prefix}.conv_weights", channels * kernel)
    sizes = (inner, inner, grouped, grouped, heads)
    b.column(f"{prefix}.in_proj", hidden, sum(sizes) if repeated else sizes, bias=bias)
    b.row(f"{prefix}.out_proj", inner, hidden, bias=bias)
    if norm:
        b.norm(f"{prefix}.norm", inner // ranks)


def mamba1(
    b: Builder,
    prefix: str,
    *,
    inner: int,
    state: int,
    kernel: int,
    rank: int,
    conv_bias: bool,
    bias: bool,
    norms: bool,
) -> None:
    """`MambaMixer`, none of it quantised; ``rank`` is the rank of the time step."""
    hidden, own = b.config.integer("hidden_size"), b.divide(inner, "the state's channels")
    b.add(f"{prefix}.A", own * state, _FLOAT)
    b.add(f"{prefix}.D", own)
    b.column(f"{prefix}.conv1d", kernel, inner, bias=conv_bias, quantized=False)
    b.column(f"{prefix}.in_proj", hidden, (inner, inner), bias=bias, quantized=False)
    b.row(f"{prefix}.x_proj", inner, rank + 2 * state, quantized=False)
    b.column(f"{prefix}.dt_proj", rank, inner, bias=True, quantized=False)
    b.row(f"{prefix}.out_proj", inner, hidden, bias=bias, quantized=False)
    if norms:
        for name, size in (("dt", rank), ("b", state), ("c", state)):
            b.norm(f"{prefix}.{name}_layernorm", size)


def short_convolution(b: Builder, prefix: str, *, channels: int, kernel: int, bias: bool) -> None:
    """`ShortConv`."""
    b.column(f"{prefix}.conv", kernel, channels, bias=bias, quantized=False)
    b.column(f"{prefix}.in_proj", channels, (channels, channels, channels), bias=bias)
    b.row(f"{prefix}.out_proj", channels, channels, bias=bias)
