"""The multi-token prediction modules of Step 3.5: sliding or full layers, listed after the target's.

vLLM: model_executor/models/step3p5_mtp.py, whose layers are step3p5.py's (Step3p5DecoderLayer).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.drafters.common import after_target
from kvplan.families.common import attention, head_dim, num_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Step3p5MTP",)

_WHY = ("mtp_layer_types, num_attention_groups", "model_executor/models/step3p5_mtp.py, Step3p5AMultiTokenPredictor")
_SLIDING = "sliding_attention"


def layers(model: Model) -> Iterator[Layer]:
    """From the drafter's own config. A module without a type of its own cannot be built."""
    config = model.config
    names = after_target(config, suffix="mtp_block.self_attn.attn")
    types = [*config.texts("layer_types"), *config.texts("mtp_layer_types", ())][num_layers(config) :]
    if len(types) < len(names):
        raise config.error("mtp_layer_types", f"must have {len(names)} entries, one for each module, got {len(types)}")
    full = config.integer("num_attention_heads")
    sliding = config.optional_integer("num_sliding_attention_heads", minimum=0) or full
    for name, kind in zip(names, types[: len(names)], strict=True):
        yield attention(
            model,
            name,
            _WHY,
            num_heads=sliding if kind == _SLIDING else full,
            num_kv_heads=config.integer("num_attention_groups"),
            head_size=head_dim(config),
            sliding_window=config.optional_integer("sliding_window") if kind == _SLIDING else None,
        )
