"""How many layers each pipeline stage runs (vllm/distributed/utils.py, get_pp_indices)."""

from __future__ import annotations

from kvplan.errors import Refused


def layer_counts(num_layers: int, stages: int, partition: str | None) -> list[int]:
    """Layers per stage: ``VLLM_PP_LAYER_PARTITION`` where given, else as even as can be.

    Layers left over go to the middle stages first, never to the last.
    """
    if partition is not None:
        return _given(partition, num_layers, stages)
    counts = [num_layers // stages] * stages
    for i in range(2, num_layers % stages + 2):
        counts[-i] += 1
    return counts


def _given(partition: str, num_layers: int, stages: int) -> list[int]:
    try:
        counts = [int(part) for part in partition.split(",")]
    except ValueError:
        raise Refused(f"VLLM_PP_LAYER_PARTITION={partition} must be numbers joined by commas.") from None
    if len(counts) != stages or sum(counts) != num_layers or min(counts) < 0:
        raise Refused(
            f"VLLM_PP_LAYER_PARTITION={partition} must have {stages} numbers that add up to {num_layers} layers."
        )
    return counts
