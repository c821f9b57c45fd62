"""The multi-token prediction modules of MiMo-7B: Qwen2 layers after the target's (vLLM: mimo_mtp.py)."""

from __future__ import annotations

from kvplan.families.common import attention, decoder_names, model_window
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MiMoMTPModel",)

_WHY = ("num_nextn_predict_layers", "model_executor/models/mimo_mtp.py, MiMoMultiTokenPredictor")


def layers(model: Model) -> list[Layer]:
    config = model.config
    heads = config.integer("num_attention_heads")
    template = attention(
        model,
        "",
        _WHY,
        num_heads=heads,
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=config.integer("hidden_size") // heads,
        sliding_window=model_window(model),
    )
    count = config.integer("num_nextn_predict_layers", maximum=1024)
    return [template._replace(name=name) for name in decoder_names("model", count, start=model.start_layer)]
