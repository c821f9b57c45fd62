"""The multi-token prediction modules of Qwen4: indexed attention layers (vLLM: models/qwen4_exp/nvidia/mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.qwen4_exp import attention_caches, has_several_axes
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Qwen4ExpMTP",)

_WHY = ("mtp_num_hidden_layers", "models/qwen4_exp/nvidia/mtp.py, Qwen4ExpMultiTokenPredictor")


def layers(model: Model) -> Iterator[Layer]:
    several_axes = "vision_config" in model.root and has_several_axes(model.config)
    attends = attention_caches(model, _WHY, several_axes=several_axes)
    first = model.config.integer("num_hidden_layers")
    for i in range(first, first + model.config.integer("mtp_num_hidden_layers", 1, maximum=1024)):
        yield from (layer._replace(name=f"mtp.layers.{i}.{end}") for end, layer in attends)
