"""Llama 4: text with routed experts, and its vision model (vLLM: model_executor/models/llama4.py, mllama4.py)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.model import Model
from kvplan.weights.attention import Heads, gated_mlp, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import SHARED, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import router, shared_expert
from kvplan.weights.names import GATE_UP, NO_RENAMES, QKV, Packed, Renames
from kvplan.weights.vision import section

ARCHITECTURES = ("Llama4ForCausalLM", "Llama4ForConditionalGeneration")
_VISION_DEFAULTS = {
    "hidden_size": 768,
    "image_size": 448,
    "intermediate_size": 5632,
    "multi_modal_projector_bias": False,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 34,
    "patch_size": 14,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
    "vision_output_dim": 7680,
}
"""Transformers' `Llama4VisionConfig`."""


def packed(model: Model) -> Packed:
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames | None:
    return NO_RENAMES if model.architecture == "Llama4ForCausalLM" else None


def weights(b: Builder) -> None:
    outer = ""
    if b.model.architecture == "Llama4ForConditionalGeneration":
        outer = "language_model."
        if b.has_tower("image"):
            _vision(b, section(b.model.root, "vision_config", _VISION_DEFAULTS))
    decoder(b, _layer, Frame(embed_on=SHARED, outer=outer))


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    heads = Heads(
        config.integer("num_attention_heads"), config.integer("num_key_value_heads"), config.integer("head_dim")
    )
    projections(b, f"{prefix}.self_attn", heads)
    if config.integers("no_rope_layers")[index]:
        b.rotary(
            f"{prefix}.self_attn.rotary_emb",
            heads.size,
            positions(config),
            rope_parameters(config),
            is_neox_style=False,
        )
    b.attention(f"{prefix}.self_attn.attn")
    step = config.integer("interleave_moe_layer_step", minimum=0)
    if step and (index + 1) % step == 0:
        _experts(b, f"{prefix}.feed_forward")
    else:
        gated_mlp(b, f"{prefix}.feed_forward", config.integer("intermediate_size_mlp"))
    two_norms(b, prefix)


def _experts(b: Builder, prefix: str) -> None:
    config = b.config
    count, size = config.integer("num_local_experts"), config.integer("intermediate_size")
    router(b, f"{prefix}.router", count)
    shared_expert(b, f"{prefix}.shared_expert", size)
    b.experts(prefix, count, config.integer("hidden_size"), size)


def _vision(b: Builder, config: Config) -> None:
    """`Llama4VisionModel` and the projector, none of them quantised."""
    size, inner = config.integer("hidden_size"), config.integer("intermediate_size")
    patch, heads = config.integer("patch_size"), config.integer("num_attention_heads")
    patches = (config.integer("image_size") // patch) ** 2
    b.add("vision_model.class_embedding", size)
    b.add("vision_model.positional_embedding_vlm", (patches + 1) * size)
    for name in ("layernorm_pre", "layernorm_post"):
        b.norm(f"vision_model.{name}", size, bias=True)
    with b.tower():
        b.column(
            "vision_model.patch_embedding.linear", config.integer("num_channels") * patch**2, size, quantized=False
        )
        for i in range(config.integer("num_hidden_layers", maximum=1000)):
            layer = f"vision_model.model.layers.{i}"
            b.qkv(f"{layer}.self_attn.qkv_proj", size, size // heads, heads, heads, bias=True, quantized=False)
            b.row(f"{layer}.self_attn.o_proj", size, size, bias=True, quantized=False)
            b.column(f"{layer}.mlp.fc1", size, inner, bias=True, quantized=False)
            b.row(f"{layer}.mlp.fc2", inner, size, bias=True, quantized=False)
            for name in ("input_layernorm", "post_attention_layernorm"):
                b.norm(f"{layer}.{name}", size, bias=True)
        _adapter(b, config)
    b.add(
        "vision_model.model.layers.0.self_attn.rotary_emb.cos_sin_cache",
        (patches + 1) * (size // heads // 2),
        "complex64",
    )
    output, hidden = config.integer("vision_output_dim"), b.config.integer("hidden_size")
    b.column("multi_modal_projector.linear_1", output, hidden, quantized=False)


def _adapter(b: Builder, config: Config) -> None:
    bias = config.truthy("multi_modal_projector_bias")
    middle = config.integer("projector_input_dim")
    prefix = "vision_model.vision_adapter.mlp"
    b.column(f"{prefix}.fc1", config.integer("intermediate_size"), middle, bias=bias, quantized=False)
    b.row(f"{prefix}.fc2", middle, config.integer("projector_output_dim"), bias=bias, quantized=False)
