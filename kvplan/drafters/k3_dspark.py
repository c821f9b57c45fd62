"""Kimi-K3's DSpark drafter: latent attention layers that draft a block at once.

vLLM: models/kimi_k3/nvidia/dspark_mla.py.
"""

from __future__ import annotations

from kvplan.families.common import decoder_names, num_layers
from kvplan.families.kimi_linear import latent_attention
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("K3DSparkModel",)

_WHY = ("num_hidden_layers, kv_lora_rank", "models/kimi_k3/nvidia/dspark_mla.py, K3DSparkDecoderLayer")


def layers(model: Model) -> list[Layer]:
    for key in ("target_hidden_size", "markov_rank"):
        model.config.integer(key)
    template = latent_attention(model, _WHY, non_causal=True)
    names = decoder_names("model", num_layers(model.config), "self_attn", model.start_layer)
    return [template._replace(name=name) for name in names]
