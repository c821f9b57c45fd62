"""Hy4's prediction modules (vLLM: models/hy_v4/nvidia/mtp.py)."""

from __future__ import annotations

from kvplan.drafters.common import target_config
from kvplan.weights.builder import Builder
from kvplan.weights.drafters.modules import ends
from kvplan.weights.models.hy_v4 import layer
from kvplan.weights.own import Own

ARCHITECTURES = ("HYV4MTPModel",)
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    """As many modules as the target's num_nextn_predict_layers says, and at least one."""
    b.config = target_config(b.model)
    first = b.config.integer("num_hidden_layers")
    for i in range(first, first + max(b.config.integer("num_nextn_predict_layers", minimum=0), 1)):
        prefix = f"model.layers.{i}"
        ends(b, prefix)
        layer(b, prefix, i)
        b.norm(f"{prefix}.final_layernorm", b.config.integer("hidden_size"))
    own.add(b, b.config.integer("vocab_size"))
