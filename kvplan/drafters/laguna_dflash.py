"""DFlash for Laguna: layers of one kind that keep every token, also where they attend in a window.

vLLM: model_executor/models/laguna_dflash.py, whose layers are laguna.py's (LagunaAttention).
"""

from __future__ import annotations

from kvplan.drafters.common import target_config
from kvplan.errors import Refused
from kvplan.families.common import (
    attention,
    decoder_names,
    head_dim,
    model_window,
    num_layers,
    windows_by_layer_type,
)
from kvplan.layers import Layer
from kvplan.model import Model
from kvplan.spec import FULL_ATTENTION

ARCHITECTURES = ("DFlashLagunaForCausalLM",)

_WHY = ("layer_types, num_key_value_heads", "model_executor/models/laguna_dflash.py, DFlashLagunaModel")


def check_vocabulary(model: Model) -> None:
    """Refused unless the drafter names the target's vocabulary as its own: it shares the target's head."""
    own, target = model.config.integer("draft_vocab_size"), target_config(model).integer("vocab_size")
    if own != target:
        raise Refused(f"{model.config.where}: draft_vocab_size {own} is not the target's vocab_size {target}.")


def layers(model: Model) -> list[Layer]:
    """The window decides the backend only. Refused where the layers differ in kind, as vLLM refuses."""
    config = model.config
    check_vocabulary(model)
    count = num_layers(config)
    types = config.texts("layer_types", length=count)
    if len(set(types)) > 1:
        raise Refused(f"{config.where}: layer_types mixes kinds, which vLLM's Laguna drafter does not take.")
    heads = [config.integer("num_attention_heads")] * count
    if config.get("num_attention_heads_per_layer") is not None:
        heads = config.integers("num_attention_heads_per_layer", length=count, minimum=1)
    names = decoder_names("model", count, start=model.start_layer)
    return [
        attention(
            model,
            name,
            _WHY,
            num_heads=own,
            num_kv_heads=config.integer("num_key_value_heads"),
            head_size=head_dim(config),
            sliding_window=window or model_window(model),
            kind=FULL_ATTENTION if window else None,
            has_sink=config.truthy("swa_attention_sink_enabled") and types[0] == "sliding_attention",
        )
        for name, own, window in zip(names, heads, windows_by_layer_type(config, count), strict=True)
    ]
