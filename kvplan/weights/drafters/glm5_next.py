"""GLM-5.3-Flash's prediction modules (vLLM: models/glm5next/common/mtp.py)."""

from __future__ import annotations

from kvplan.drafters.common import num_modules, target_config
from kvplan.weights.builder import Builder
from kvplan.weights.drafters.modules import ends
from kvplan.weights.models.glm5_next import layer
from kvplan.weights.own import Own

ARCHITECTURES = ("Glm5NextMTPModel",)
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    b.config = target_config(b.model)
    first = b.config.integer("num_hidden_layers")
    for i in range(first, first + num_modules(b.config)):
        prefix = f"model.layers.{i}"
        ends(b, prefix)
        b.norm(f"{prefix}.shared_head.norm", b.config.integer("hidden_size"))
        layer(b, prefix, i)
    own.add(b, b.config.integer("vocab_size"))
