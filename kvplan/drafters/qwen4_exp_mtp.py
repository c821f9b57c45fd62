"""The multi-token prediction modules of Qwen4: indexed attention layers (vLLM: models/qwen4_exp/nvidia/mtp.py)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.qwen4_exp import attention_caches, has_several_axes
from kvplan.layers import CustomLayer, Layer
from kvplan.model import Model

ARCHITECTURES = ("Qwen4ExpMTP",)

_WHY = ("mtp_num_hidden_layers", "models/qwen4_exp/nvidia/mtp.py, Qwen4ExpMultiTokenPredictor")


def _as_copied(model: Model, layer: Layer) -> Layer:
    """The index of a drafter with a KV cache dtype of its own: it reads a copy of the cache config, made before vLLM
    grew the block to hold a state."""
    if not (model.owns_cache_dtype and isinstance(layer, CustomLayer)):
        return layer
    make, block = layer.make_spec, model.engine.block_size
    return layer._replace(make_spec=lambda sizes: make(sizes._replace(block_size=block)))


def layers(model: Model) -> Iterator[Layer]:
    several_axes = "vision_config" in model.root and has_several_axes(model.config)
    attends = attention_caches(model, _WHY, several_axes=several_axes)
    first = model.config.integer("num_hidden_layers")
    for i in range(first, first + model.config.integer("mtp_num_hidden_layers", 1, maximum=1024)):
        yield from (_as_copied(model, layer)._replace(name=f"mtp.layers.{i}.{end}") for end, layer in attends)
