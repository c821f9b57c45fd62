"""The multi-token prediction modules of Step 3.5: sliding layers, listed after the target's.

vLLM: model_executor/models/step3p5_mtp.py, whose layers are step3p5.py's (Step3p5DecoderLayer).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.drafters.common import after_target
from kvplan.errors import Refused
from kvplan.families.common import attention, head_dim, num_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Step3p5MTP",)

_WHY = ("mtp_layer_types, num_attention_groups", "model_executor/models/step3p5_mtp.py, Step3p5AMultiTokenPredictor")


def layers(model: Model) -> Iterator[Layer]:
    """Sliding layers from the drafter's own config.

    Refused for a module with full attention: vLLM looks its head count up among the decoder layers' and finds none.
    """
    config = model.config
    names = after_target(config, suffix="mtp_block.self_attn.attn")
    kinds = [*config.texts("layer_types"), *config.texts("mtp_layer_types", ())][num_layers(config) :]
    if len(kinds) < len(names):
        raise config.error("mtp_layer_types", f"must have {len(names)} entries, one for each module, got {len(kinds)}")
    for name, kind in zip(names, kinds, strict=False):
        if kind != "sliding_attention":
            raise Refused(f"{config.where}: mtp_layer_types has {kind}; vLLM 0.33.0 drafts with sliding modules only.")
        yield attention(
            model,
            name,
            _WHY,
            num_heads=config.optional_integer("num_sliding_attention_heads") or config.integer("num_attention_heads"),
            num_kv_heads=config.integer("num_attention_groups"),
            head_size=head_dim(config),
            sliding_window=config.optional_integer("sliding_window"),
        )
