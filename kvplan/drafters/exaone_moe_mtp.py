"""The multi-token prediction modules of K-EXAONE: layers that vLLM builds without the deployment's cache options.

vLLM: model_executor/models/exaone_moe_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import grouped_query, num_modules_or_one, target_config
from kvplan.families.exaone_moe import windows
from kvplan.layers import AttentionLayer
from kvplan.model import Model

ARCHITECTURES = ("ExaoneMoeMTP",)

_WHY = ("mtp_layer_types, num_nextn_predict_layers", "model_executor/models/exaone_moe_mtp.py, ExaoneMoeMTP")


def layers(model: Model) -> list[AttentionLayer]:
    """All from the target's config. A config without mtp_layer_types has the kinds of the target's first layers."""
    config = target_config(model)
    count = num_modules_or_one(config)
    kinds = "mtp_layer_types" if config.get("mtp_layer_types") else "layer_types"
    own = "mtp_sliding_windows" if config.get("mtp_sliding_windows") else "sliding_windows"
    made = grouped_query(model, config, (f"mtp.layers.{i}.self_attn.attn" for i in range(count)), _WHY)
    sizes = windows(config, count, kinds, own)
    return [layer._replace(sliding_window=size, cache_dtype="auto") for layer, size in zip(made, sizes, strict=True)]
