"""Muse Glimmer: gated attention with four norms in a layer, and a vision encoder (vLLM: muse_glimmer.py)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.model import Model
from kvplan.weights.attention import gated_mlp, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.models.gemma import four_norms, own_heads
from kvplan.weights.names import GATE_UP, QKV, Packed
from kvplan.weights.vision import section

ARCHITECTURES = ("MuseGlimmerForConditionalGeneration", "MuseGlimmerForCausalLM")


def packed(model: Model) -> Packed:
    return {**QKV, **GATE_UP}


def weights(b: Builder) -> None:
    b.only_unquantized()
    decoder(b, _layer, Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS), tie=False)
    if b.model.root.get("vision_config") is not None and b.has_tower("image", "video"):
        _vision(b, section(b.model.root, "vision_config", {}))


def _layer(b: Builder, prefix: str, index: int) -> None:
    """Full layers have no positions; a gate of the queries' width on what attention gives."""
    config, heads = b.config, own_heads(b)
    attention = f"{prefix}.self_attn"
    projections(b, attention, heads)
    b.column(f"{attention}.output_gate_proj", config.integer("hidden_size"), heads.query * heads.size)
    if config.sequence("layer_rope_theta")[index]:
        b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{attention}.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    four_norms(b, prefix)


def _vision(b: Builder, config: Config) -> None:
    """The encoder, its adapter and the projection to the text's width."""
    size, patch = config.integer("hidden_size"), config.integer("patch_size")
    prefix = "vision_encoder"
    grid = config.integer("pos_emb_height") * config.integer("pos_emb_width")
    b.add(f"{prefix}.positional_embedding_vlm", grid * size)
    b.add(f"{prefix}.conv1_linear.weight", config.integer("patch_temporal") * 3 * patch * patch * size)
    b.norm(f"{prefix}.ln_pre", size, bias=True)
    for i in range(config.integer("num_hidden_layers", maximum=1024)):
        _block(b, f"{prefix}.transformer.{i}", config)
    b.norm(f"{prefix}.ln_post", size, bias=True)
    root = b.model.root
    merged, middle = root.integer("out_hidden_size"), root.integer("projector_hidden_size")
    b.add("vision_adapter.c_fc.weight", merged * middle)
    b.add("vision_adapter.c_proj.weight", middle * middle)
    b.add("vision_projection.weight", middle * b.config.integer("hidden_size"))


def _block(b: Builder, prefix: str, config: Config) -> None:
    """Attention is split over the ranks, the feed-forward layer is not."""
    size, inner = config.integer("hidden_size"), config.integer("intermediate_size")
    heads = config.integer("num_attention_heads")
    for name in ("ln_1", "ln_2"):
        b.norm(f"{prefix}.{name}", size, bias=True)
    b.qkv(f"{prefix}.attn.qkv_proj", size, size // heads, heads, heads, bias=True, quantized=False)
    b.row(f"{prefix}.attn.o_proj", size, size, bias=True, quantized=False)
    b.replicated(f"{prefix}.mlp.c_fc", size, inner, bias=True, quantized=False)
    b.replicated(f"{prefix}.mlp.c_proj", inner, size, bias=True, quantized=False)
