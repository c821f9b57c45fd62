"""MiMo-V2's prediction module: one sliding layer (vLLM: model_executor/models/mimo_v2_mtp.py)."""

from __future__ import annotations

from kvplan.weights.attention import gated_mlp
from kvplan.weights.builder import Builder
from kvplan.weights.drafters.modules import ends
from kvplan.weights.models.mimo_v2 import attention
from kvplan.weights.own import Own

ARCHITECTURES = ("MiMoV2MTPModel", "MiMoV2OmniMTPModel")
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    config, prefix = b.config, "model.mtp.layers.0"
    size = config.integer("hidden_size")
    ends(b, prefix)
    attention(b, f"{prefix}.self_attn", sliding=True, module=True)
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    for name in ("input_layernorm", "pre_mlp_layernorm", "final_layernorm"):
        b.norm(f"{prefix}.{name}", size)
    own.add(b, config.integer("vocab_size"))
