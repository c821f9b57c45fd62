"""ChatGLM3 and the first GLM-4: query heads share a few KV groups (vLLM: model_executor/models/chatglm.py)."""

from __future__ import annotations

from kvplan.families.common import divided_head_dim, require, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("ChatGLMModel", "ChatGLMForConditionalGeneration")

_WHY = ("multi_query_attention, multi_query_group_num", "model_executor/models/chatglm.py, GLMAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    require(config, "original_rope", "tie_word_embeddings")
    grouped = config.truthy("multi_query_attention")
    heads = config.integer("multi_query_group_num" if grouped else "num_attention_heads")
    return uniform_gqa(
        model,
        _WHY,
        prefix="transformer.encoder",
        suffix="self_attention.attn",
        head_size=divided_head_dim(config),
        num_kv_heads=heads,
    )
