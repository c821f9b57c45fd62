"""The multi-token prediction module of Qwen3-Next and Qwen3.5/3.6: full attention layers.

vLLM: model_executor/models/qwen3_next_mtp.py and qwen3_5_mtp.py.
"""

from __future__ import annotations

from kvplan.families.common import attention, head_dim
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Qwen3NextMTP", "Qwen3_5MTP", "Qwen3_5MoeMTP")

_COUNT = {"Qwen3NextMTP": "num_nextn_predict_layers"}


def layers(model: Model) -> list[Layer]:
    config = model.config
    key = _COUNT.get(model.architecture, "mtp_num_hidden_layers")
    template = attention(
        model,
        "",
        (key, "model_executor/models/qwen3_5_mtp.py, Qwen3_5MultiTokenPredictor"),
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=head_dim(config),
    )
    count = config.integer(key, 1, maximum=1024)
    return [template._replace(name=f"mtp.layers.{i}.self_attn.attn") for i in range(count)]
