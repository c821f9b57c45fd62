"""Layers with routed experts: the router, the experts, and what runs beside them for every token."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.attention import gated_mlp
from kvplan.weights.builder import Builder

FLOAT = "float32"
CORRECTION = "e_score_correction_bias"


def router(
    b: Builder,
    prefix: str,
    experts: int,
    *,
    dtype: str | None = None,
    correction: str | None = None,
    bias: bool = False,
    quantized: bool = False,
) -> None:
    """The router's matrix, whole on every rank; ``correction`` names its bias on the scores, in float32.

    vLLM: `GateLinear`, which few model classes let be quantised.
    """
    b.replicated(prefix, b.config.integer("hidden_size"), experts, dtype=dtype, bias=bias, quantized=quantized)
    if correction is not None:
        b.add(f"{prefix}.{correction}", experts, FLOAT)


def renormalizes(config: Config, *names: str) -> bool | None:
    """Whether the chosen experts' weights are made to sum to one; None where the config does not say."""
    name = next((name for name in (*names, "norm_topk_prob") if name in config), None)
    return None if name is None else config.truthy(name)


def shared_expert(b: Builder, prefix: str, size: int, *, replicates: bool = False) -> None:
    """A gated layer that runs for every token beside the routed experts.

    ``replicates``: the model class keeps it whole on every rank where the tokens are split over the ranks. Refused in
    that case for other classes.
    """
    if b.sequence_parallel and not replicates:
        b.refuse("with expert, tensor and data parallelism together")
    gated_mlp(b, prefix, size, replicated=b.sequence_parallel)


def shared_expert_gate(b: Builder, prefix: str) -> None:
    """The gate on a shared expert's output, never quantised."""
    b.replicated(f"{prefix}.shared_expert_gate", b.config.integer("hidden_size"), 1, quantized=False)
