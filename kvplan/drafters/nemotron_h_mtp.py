"""The multi-token prediction module of Nemotron-H (vLLM: model_executor/models/nemotron_h_mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.nemotron_h import full_attention
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("NemotronHMTPModel",)


def layers(model: Model) -> Iterator[Layer]:
    full = full_attention(model)
    for i, kind in enumerate(model.config.texts("mtp_layers_block_type")):
        if kind == "full_attention":
            yield full._replace(name=f"mtp.layers.{i}.mixer.attn")
