"""The multi-token prediction modules of Qwen3-Next and Qwen3.5/3.6: full attention layers.

vLLM: model_executor/models/qwen3_next_mtp.py and qwen3_5_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import grouped_query, num_modules_or_one, target_config
from kvplan.layers import AttentionLayer
from kvplan.model import Model

ARCHITECTURES = ("Qwen3NextMTP", "Qwen3_5MTP", "Qwen3_5MoeMTP")

_NEXT = ("num_nextn_predict_layers", "model_executor/models/qwen3_next_mtp.py, Qwen3NextMultiTokenPredictor")
_3_5 = ("mtp_num_hidden_layers", "model_executor/models/qwen3_5_mtp.py, Qwen3_5MultiTokenPredictor")


def layers(model: Model) -> list[AttentionLayer]:
    config = target_config(model)
    why = _NEXT if model.architecture == "Qwen3NextMTP" else _3_5
    count = num_modules_or_one(config, why[0])
    return grouped_query(model, config, (f"mtp.layers.{i}.self_attn.attn" for i in range(count)), why)
