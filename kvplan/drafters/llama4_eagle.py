"""EAGLE with the layers of Llama 4: chunked local attention where a layer rotates, full attention where it does not.

vLLM: model_executor/models/llama4_eagle.py, whose layers are llama4.py's (Llama4DecoderLayer).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.errors import Refused
from kvplan.families.llama4 import text_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("EagleLlama4ForCausalLM",)

_SUFFIX = "self_attn.attn"


def layers(model: Model) -> Iterator[Layer]:
    """Refused with experts or shared caches, which the class does not draft with."""
    config = model.config
    for key in ("yoco_global_kv_layer", "yoco_local_kv_layer"):
        if key not in config or config.get(key) is not None:
            raise Refused(f"{config.where}: {key} must be there and null, or vLLM does not draft with the model.")
    config.integer("draft_vocab_size")
    if config.sequence("moe_layers"):
        raise Refused(f"{config.where}: moe_layers must be empty: vLLM's Llama 4 drafter has no experts.")
    step = config.integer("interleave_moe_layer_step", minimum=0)
    for index, layer in enumerate(text_layers(model), model.layers_on_last_stage):
        if step and not (index + 1) % step:
            raise Refused(
                f"{config.where}: interleave_moe_layer_step {step} puts experts into layer {index}, which the drafter "
                "is; use 0, as drafters have it."
            )
        yield layer._replace(name=f"model.layers.{index}.{_SUFFIX}")
