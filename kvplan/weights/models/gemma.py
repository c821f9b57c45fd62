"""Gemma 1 to 3, text and vision: four norms in a layer from Gemma 2 on, norms on queries and keys from Gemma 3 on.

vLLM: model_executor/models/gemma.py, gemma2.py, gemma3.py, gemma3_mm.py. Every stage holds the embedding and the norm.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import (
    HEAD,
    Heads,
    gated_mlp,
    positions,
    projections,
    qk_norms,
    rope_parameters,
)
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, NEVER, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.names import GATE_UP, NO_RENAMES, QKV, Renames
from kvplan.weights.vision.siglip import siglip

ARCHITECTURES = (
    "GemmaForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
)
_FRAME = Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)
_RENAMES = Renames(
    prefixes=(
        ("model.language_model.", "language_model.model."),
        ("model.vision_tower.", "vision_tower."),
        ("model.multi_modal_projector.", "multi_modal_projector."),
        ("lm_head.", "language_model.lm_head."),
    )
)


def packed(model: Model) -> dict[str, tuple[str, ...]]:
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames:
    return _RENAMES if model.architecture == "Gemma3ForConditionalGeneration" else NO_RENAMES


def weights(b: Builder) -> None:
    architecture = b.model.architecture
    if architecture == "GemmaForCausalLM":
        decoder(b, _gemma_layer, _FRAME)
    elif architecture == "Gemma2ForCausalLM":
        decoder(b, _gemma2_layer, _FRAME._replace(head_on=NEVER))
    else:
        outer = "language_model." if architecture == "Gemma3ForConditionalGeneration" else ""
        if outer and b.has_tower("image"):
            _vision(b)
        decoder(b, _gemma3_layer, _FRAME._replace(outer=outer))
        b.buffer(f"{outer}model.normalizer", 1)
        return
    b.buffer("model.normalizer", 1)


def own_heads(b: Builder) -> Heads:
    """Gemma's classes read head_dim itself."""
    config = b.config
    return Heads(
        config.integer("num_attention_heads"), config.integer("num_key_value_heads"), config.integer("head_dim")
    )


def four_norms(b: Builder, prefix: str) -> None:
    two_norms(b, prefix)
    for name in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
        b.norm(f"{prefix}.{name}", b.config.integer("hidden_size"))


def _gemma_layer(b: Builder, prefix: str, index: int) -> None:
    config, heads = b.config, own_heads(b)
    projections(b, f"{prefix}.self_attn", heads)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def _gemma2_layer(b: Builder, prefix: str, index: int) -> None:
    config, heads = b.config, own_heads(b)
    projections(b, f"{prefix}.self_attn", heads, bias=config.truthy("attention_bias"))
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    four_norms(b, prefix)


def _gemma3_layer(b: Builder, prefix: str, index: int) -> None:
    """Full and sliding layers have rotary tables of their own."""
    config, heads = b.config, own_heads(b)
    kind = config.texts("layer_types")[index]
    projections(b, f"{prefix}.self_attn", heads, bias=config.truthy("attention_bias"))
    qk_norms(b, f"{prefix}.self_attn", heads, HEAD)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config, kind))
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    four_norms(b, prefix)


def _vision(b: Builder) -> None:
    root = b.model.root
    vision = root.section("vision_config")
    if vision is None:
        raise root.error("vision_config", "is missing, and vLLM cannot build the model without it")
    siglip(b, "vision_tower.vision_model", vision)
    size = vision.integer("hidden_size")
    b.add("multi_modal_projector.mm_input_projection_weight", size * b.config.integer("hidden_size"))
    b.norm("multi_modal_projector.mm_soft_emb_norm", size)
