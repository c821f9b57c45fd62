"""gpt-oss: sinks, biases everywhere, experts in MXFP4 (vLLM: model_executor/models/gpt_oss.py)."""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import heads_of, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import FLOAT, router
from kvplan.weights.names import QKV, Packed, Renames

ARCHITECTURES = ("GptOssForCausalLM",)
_ROPE = ("rope_theta", "factor", "original_max_position_embeddings", "beta_fast", "beta_slow")


def packed(model: Model) -> Packed:
    return QKV


def renames(model: Model) -> Renames:
    return Renames(substrings=((".self_attn.", ".attn."),))


def weights(b: Builder) -> None:
    frame = Frame(embed="embedding", embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS, embed_quantized=False)
    decoder(b, _layer, frame, tie=False)


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    heads = heads_of(config)
    projections(b, f"{prefix}.attn", heads, bias=True)
    b.add(f"{prefix}.attn.sinks", b.model.heads_per_rank(heads.query))
    own = rope_parameters(config)
    parameters = {"rope_type": "yarn", **{key: own.get(key) for key in _ROPE}}
    b.rotary(f"{prefix}.attn.rotary_emb", heads.size, positions(config), parameters, dtype=FLOAT)
    b.attention(f"{prefix}.attn.attn")
    count = config.integer("num_local_experts")
    router(b, f"{prefix}.mlp.router", count, bias=True)
    hidden, size = config.integer("hidden_size"), config.integer("intermediate_size")
    b.experts(f"{prefix}.mlp", count, hidden, size, bias=True, activation="swigluoai")
    two_norms(b, prefix)
