"""Models on vLLM's Transformers backend: the layers are Transformers' own, with vLLM's linear layers.

vLLM: model_executor/models/transformers/base.py, causal.py, moe.py. The matrices are those of Transformers' classes;
attention, gated feed-forward layers and experts are fused as in vLLM's own models.
"""

from __future__ import annotations

from kvplan.families.transformers_backend import original
from kvplan.model import Model
from kvplan.weights.attention import HEAD, WHOLE, gated_mlp, heads_of, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import Frame, decoder
from kvplan.weights.mla import latent_attention
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "HunYuanMoEV1ForCausalLM",
    "Olmo2ForCausalLM",
    "Olmo3ForCausalLM",
    "FlexOlmoForCausalLM",
    "MellumForCausalLM",
    "TransformersMoEForCausalLM",
)
_KNOWN = (
    "HunYuanMoEV1ForCausalLM",
    "Mistral4ForCausalLM",
    "Olmo2ForCausalLM",
    "Olmo3ForCausalLM",
    "FlexOlmoForCausalLM",
    "MellumForCausalLM",
    "SolarOpenForCausalLM",
)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised, or where the wrapped class is not one compared with the engine."""
    b.only_unquantized()
    name = original(b.model)
    if name not in _KNOWN:
        b.refuse(f"of {name} on vLLM's Transformers backend")
    layer = {
        "HunYuanMoEV1ForCausalLM": _hunyuan_layer,
        "Mistral4ForCausalLM": _mistral4_layer,
        "MellumForCausalLM": _mellum_layer,
        "SolarOpenForCausalLM": _solar_layer,
    }.get(name, _olmo_layer)
    root, text = b.model.root, b.config
    tied = text.truthy("tie_word_embeddings") or root.truthy("tie_word_embeddings")
    decoder(b, layer, Frame(), tie=tied)
    for kind in _kinds(b, name):
        for part in ("inv_freq", "original_inv_freq"):
            b.buffer(f"model.rotary_emb.{kind}{part}", _rotated(b, kind.rstrip("_")) // 2, "float32")


def _kinds(b: Builder, name: str) -> list[str]:
    """The kinds of layers that have positions of their own: Olmo3's and Mellum's."""
    if name not in ("Olmo3ForCausalLM", "MellumForCausalLM"):
        return [""]
    return [f"{kind}_" for kind in sorted(set(b.config.texts("layer_types")))]


def _rotated(b: Builder, kind: str) -> int:
    """Elements of a head that positions rotate."""
    parameters = rope_parameters(b.config, kind or None)
    return int(heads_of(b.config).size * float(parameters.get("partial_rotary_factor", 1.0)))


def _olmo_layer(b: Builder, prefix: str, index: int) -> None:
    """`Olmo2DecoderLayer`, and FlexOlmo's: norms behind each half, and on all queries and all keys."""
    config, heads, attention = b.config, heads_of(b.config), f"{prefix}.self_attn"
    projections(b, attention, heads, bias=config.truthy("attention_bias"))
    qk_norms(b, attention, heads, WHOLE)
    b.attention(f"{attention}.attn")
    hidden, width = config.integer("hidden_size"), config.integer("intermediate_size")
    if b.model.architecture == "FlexOlmoForCausalLM":
        count = config.integer("num_experts")
        router(b, f"{prefix}.mlp.gate", count)
        b.experts(f"{prefix}.mlp", count, hidden, width)
    else:
        gated_mlp(b, f"{prefix}.mlp", width)
    for name in ("post_attention_layernorm", "post_feedforward_layernorm"):
        b.norm(f"{prefix}.{name}", hidden)


def _hunyuan_layer(b: Builder, prefix: str, index: int) -> None:
    """`HunYuanMoEV1DecoderLayer`: a shared expert of the size of the routed ones."""
    config, heads, attention = b.config, heads_of(b.config), f"{prefix}.self_attn"
    projections(b, attention, heads, bias=config.truthy("attention_bias"))
    qk_norms(b, attention, heads, HEAD, ("query_layernorm", "key_layernorm"))
    b.attention(f"{attention}.attn")
    size, count = config.integer("intermediate_size"), config.integer("num_experts")
    router(b, f"{prefix}.mlp.gate.wg", count)
    gated_mlp(b, f"{prefix}.mlp.shared_mlp", size)
    b.experts(f"{prefix}.mlp", count, config.integer("hidden_size"), size)
    two_norms(b, prefix)


def _mistral4_layer(b: Builder, prefix: str, index: int) -> None:
    """`Mistral4DecoderLayer`: latent attention, and routed experts beside shared ones."""
    config = b.config
    if config.truthy("attention_bias"):
        b.refuse("with attention_bias")
    latent_attention(b, f"{prefix}.self_attn", scales=".attn", rotary=False)
    if index >= config.integer("first_k_dense_replace", minimum=0):
        size, count = config.integer("moe_intermediate_size"), config.integer("n_routed_experts")
        router(b, f"{prefix}.mlp.gate", count)
        shared_expert(b, f"{prefix}.mlp.shared_experts", size * config.integer("n_shared_experts"))
        b.experts(f"{prefix}.mlp", count, config.integer("hidden_size"), size)
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def _mellum_layer(b: Builder, prefix: str, index: int) -> None:
    """Norms on queries and keys; experts where mlp_layer_types says sparse."""
    config, heads, attention = b.config, heads_of(b.config), f"{prefix}.self_attn"
    projections(b, attention, heads, bias=config.truthy("attention_bias"))
    qk_norms(b, attention, heads, HEAD)
    b.attention(f"{attention}.attn")
    if config.texts("mlp_layer_types")[index] == "sparse":
        count, size = config.integer("num_experts"), config.integer("moe_intermediate_size")
        router(b, f"{prefix}.mlp.experts.gate", count)
        b.experts(f"{prefix}.mlp", count, config.integer("hidden_size"), size)
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def _solar_layer(b: Builder, prefix: str, index: int) -> None:
    """`SolarOpenDecoderLayer`: routed experts beside shared ones in every layer."""
    config, heads, attention = b.config, heads_of(b.config), f"{prefix}.self_attn"
    projections(b, attention, heads, bias=config.truthy("attention_bias"), out_bias=False)
    b.attention(f"{attention}.attn")
    size, count = config.integer("moe_intermediate_size"), config.integer("n_routed_experts")
    router(b, f"{prefix}.mlp.experts.gate", count)
    b.buffer(f"{prefix}.mlp.experts.gate.{CORRECTION}", count, FLOAT)
    shared_expert(b, f"{prefix}.mlp.shared_experts", size * config.integer("n_shared_experts"))
    b.experts(f"{prefix}.mlp", count, config.integer("hidden_size"), size)
    two_norms(b, prefix)
