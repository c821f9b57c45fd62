"""DBRX: grouped-query attention whose KV heads are in attn_config (vLLM: model_executor/models/dbrx.py)."""

from __future__ import annotations

from kvplan.families.common import attention, divided_head_dim, model_window, num_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DbrxForCausalLM",)

_WHY = ("attn_config.kv_n_heads, d_model", "model_executor/models/dbrx.py, DbrxAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    section = config.section("attn_config")
    if section is None:
        raise config.error("attn_config", "is missing, and it has the number of KV heads")
    section.number("rope_theta")
    template = attention(
        model,
        "",
        _WHY,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=section.integer("kv_n_heads"),
        head_size=divided_head_dim(config),
        sliding_window=model_window(model),
    )
    names = (f"transformer.blocks.{i}.norm_attn_norm.attn.attn" for i in range(num_layers(config)))
    return [template._replace(name=name) for name in names]
