"""MiniCPM3: latent attention that vLLM unfolds, so every query head caches its own key and value.

vLLM: model_executor/models/minicpm3.py (MiniCPM3Attention). Values are padded to the size of a key.
"""

from __future__ import annotations

from kvplan.families.common import uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MiniCPM3ForCausalLM",)

_WHY = ("qk_nope_head_dim, qk_rope_head_dim", "model_executor/models/minicpm3.py, MiniCPM3Attention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    size = config.integer("qk_nope_head_dim") + config.integer("qk_rope_head_dim")
    return uniform_gqa(model, _WHY, head_size=size, num_kv_heads=config.integer("num_attention_heads"))
