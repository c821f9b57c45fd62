"""Nemotron-H's prediction module: attention and experts behind a projection (vLLM: nemotron_h_mtp.py)."""

from __future__ import annotations

from kvplan.weights.builder import Builder
from kvplan.weights.models.nemotron_h import mixer
from kvplan.weights.own import Own

ARCHITECTURES = ("NemotronHMTPModel",)
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    """The first layer brings the projection, the last one the norm behind it all."""
    size = b.config.integer("hidden_size")
    kinds = b.config.texts("mtp_layers_block_type")
    for i, kind in enumerate(kinds):
        prefix = f"mtp.layers.{i}"
        mixer(b, f"{prefix}.mixer", kind)
        b.norm(f"{prefix}.norm", size)
        if i == 0:
            b.norm(f"{prefix}.enorm", size)
            b.norm(f"{prefix}.hnorm", size)
            b.column(f"{prefix}.eh_proj", 2 * size, size)
        if i == len(kinds) - 1:
            b.norm(f"{prefix}.final_layernorm", size)
