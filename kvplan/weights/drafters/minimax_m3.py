"""MiniMax-M3's prediction modules (vLLM: models/minimax_m3/nvidia/mtp.py)."""

from __future__ import annotations

from kvplan.weights.builder import Builder
from kvplan.weights.models.minimax_m3 import layer
from kvplan.weights.own import Own

ARCHITECTURES = ("MiniMaxM3MTP",)
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    size = b.config.integer("hidden_size")
    for i in range(b.config.integer("num_mtp_modules", maximum=1024)):
        prefix = f"model.layers.{i}"
        for name in ("enorm", "hnorm", "final_layernorm"):
            b.norm(f"{prefix}.{name}", size)
        b.replicated(f"{prefix}.eh_proj", 2 * size, size)
        layer(b, f"{prefix}.transformer_layer", sparse=True, routed=True)
    own.add(b, b.config.integer("vocab_size"))
