"""DeepSeek-V4's prediction modules (vLLM: models/deepseek_v4/nvidia/mtp.py)."""

from __future__ import annotations

from kvplan.drafters.common import num_modules, target_config
from kvplan.weights.builder import Builder
from kvplan.weights.models.deepseek_v4 import head_streams, layer
from kvplan.weights.own import Own

ARCHITECTURES = ("DeepSeekV4MTPModel",)
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    """Modules that keep their windows only and compress nothing."""
    config = b.config
    size, first = config.integer("hidden_size"), target_config(b.model).integer("num_hidden_layers")
    for i in range(first, first + num_modules(config)):
        prefix = f"model.layers.{i}"
        for name in ("enorm", "hnorm", "shared_head.norm"):
            b.norm(f"{prefix}.{name}", size)
        for name in ("e_proj", "h_proj"):
            b.replicated(f"{prefix}.{name}", size, size)
        head_streams(b, prefix)
        layer(b, prefix, i, 1)
    own.add(b, config.integer("vocab_size"))
