"""The multi-token prediction modules of EXAONE 4.5: layers of EXAONE 4.

vLLM: model_executor/models/exaone4_5_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import grouped_query, num_modules_or_one, target_of
from kvplan.families.common import windows_by_layer_type
from kvplan.layers import AttentionLayer
from kvplan.model import Model

ARCHITECTURES = ("Exaone4_5_MTP",)

_WHY = (
    "layer_types, num_nextn_predict_layers",
    "model_executor/models/exaone4_5_mtp.py, Exaone4_5MultiTokenPredictor",
)


def layers(model: Model) -> list[AttentionLayer]:
    """All from the target's config: the modules have the kinds of its first layers."""
    target = target_of(model, "Exaone4_5_ForConditionalGeneration")
    config = target.config
    count = num_modules_or_one(target.root)
    windows = windows_by_layer_type(config, config.integer("num_hidden_layers"))
    if count > len(windows):
        raise target.root.error("num_nextn_predict_layers", f"must be at most the {len(windows)} decoder layers")
    made = grouped_query(model, config, (f"mtp.layers.{i}.self_attn.attn" for i in range(count)), _WHY)
    return [
        layer._replace(sliding_window=window or layer.sliding_window)
        for layer, window in zip(made, windows, strict=False)
    ]
