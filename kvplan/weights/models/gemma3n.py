"""Gemma 3n, text, vision and audio: several streams of hidden states, embeddings per layer, low-rank side branches.

vLLM: model_executor/models/gemma3n.py, gemma3n_mm.py. The towers are Transformers' own and whole on every rank.
"""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.model import Model
from kvplan.weights.attention import HEAD, gated_mlp, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, NEVER, Frame, decoder
from kvplan.weights.models.gemma import four_norms, own_heads
from kvplan.weights.moe import FLOAT
from kvplan.weights.names import GATE_UP, QKV, Packed
from kvplan.weights.vision import section
from kvplan.weights.vision.gemma3n import gemma3n_audio, gemma3n_vision

ARCHITECTURES = ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration")


def packed(model: Model) -> Packed:
    return {**QKV, **GATE_UP}


def weights(b: Builder) -> None:
    b.only_unquantized()
    outer = ""
    if b.model.architecture == "Gemma3nForConditionalGeneration":
        outer = "language_model."
        _encoders(b)
    decoder(b, _layer, Frame(embed_on=NEVER, norm_on=ALWAYS, head_on=NEVER, outer=outer))
    _streams(b, f"{outer}model")


def _encoders(b: Builder) -> None:
    root = b.model.root
    if b.has_tower("image"):
        vision = section(root, "vision_config", {})
        gemma3n_vision(b, vision)
        _embedder(b, "embed_vision", vision)
    if b.has_tower("audio"):
        audio = section(root, "audio_config", {})
        gemma3n_audio(b, audio)
        _embedder(b, "embed_audio", audio)


def _embedder(b: Builder, prefix: str, config: Config) -> None:
    """`Gemma3nMultimodalEmbedder`."""
    size = config.integer("hidden_size")
    b.embedding(f"{prefix}.embedding", config.integer("vocab_size"), size)
    for name in ("hard_embedding_norm", "soft_embedding_norm"):
        b.norm(f"{prefix}.{name}", size)
    b.row(f"{prefix}.embedding_projection", size, b.config.integer("hidden_size"), quantized=False)


def _streams(b: Builder, prefix: str) -> None:
    """Embeddings, and the projections between the one hidden state and its several streams."""
    config, size = b.config, b.config.integer("hidden_size")
    own = config.integer("hidden_size_per_layer_input")
    total, inner = own * config.integer("num_hidden_layers"), f"{prefix}.self_decoder"
    b.embedding(f"{inner}.embed_tokens", config.integer("vocab_size"), size)
    b.embedding(f"{inner}.embed_tokens_per_layer", config.integer("vocab_size_per_layer_input"), total)
    b.column(f"{inner}.per_layer_model_projection", size, total)
    b.norm(f"{inner}.per_layer_projection_norm", own)
    for i in range(config.integer("altup_num_inputs", maximum=64) - 1):
        b.column(f"{inner}.altup_projections.{i}", size, size)
        b.column(f"{prefix}.altup_unembed_projections.{i}", size, size)
    for name in ("embed_scale", "embed_scale_per_layer", "per_layer_input_scale", "per_layer_projection_scale"):
        b.buffer(f"{inner}.{name}", 1)


def _layer(b: Builder, prefix: str, index: int) -> None:
    config, hidden = b.config, b.config.integer("hidden_size")
    _altup(b, f"{prefix}.altup")
    _attention(b, f"{prefix}.self_attn", index)
    gated_mlp(b, f"{prefix}.mlp", config.integers("intermediate_size", minimum=1)[index])
    rank = config.integer("laurel_rank")
    b.column(f"{prefix}.laurel.linear_left", hidden, rank)
    b.row(f"{prefix}.laurel.linear_right", rank, hidden)
    b.norm(f"{prefix}.laurel.post_laurel_norm", hidden)
    own = config.integer("hidden_size_per_layer_input")
    b.replicated(f"{prefix}.per_layer_input_gate", hidden, own)
    b.replicated(f"{prefix}.per_layer_projection", own, hidden)
    b.norm(f"{prefix}.post_per_layer_input_norm", hidden)
    four_norms(b, prefix)


def _altup(b: Builder, prefix: str) -> None:
    """`Gemma3nAltUp`: how the streams are predicted and corrected."""
    count, size = b.config.integer("altup_num_inputs"), b.config.integer("hidden_size")
    b.add(f"{prefix}.correct_output_scale", size, FLOAT)
    b.replicated(f"{prefix}.correction_coefs", count, count)
    b.replicated(f"{prefix}.prediction_coefs", count, count * count)
    b.replicated(f"{prefix}.modality_router", size, count)
    b.norm(f"{prefix}.router_norm", size)
    b.buffer(f"{prefix}.router_input_scale", 1)


def _attention(b: Builder, prefix: str, index: int) -> None:
    """`Gemma3nAttention`; the last layers read an earlier one's cache and have queries only."""
    config, heads = b.config, own_heads(b)
    count = config.integer("num_hidden_layers")
    bias, hidden = config.truthy("attention_bias"), config.integer("hidden_size")
    if index >= count - config.integer("num_kv_shared_layers", minimum=0, maximum=count):
        b.column(f"{prefix}.q_proj", hidden, heads.query * heads.size, bias=bias)
        b.row(f"{prefix}.o_proj", heads.query * heads.size, hidden, bias=bias)
        b.norm(f"{prefix}.q_norm", heads.size)
    else:
        projections(b, prefix, heads, bias=bias)
        qk_norms(b, prefix, heads, HEAD)
    kind = config.texts("layer_types")[index]
    b.rotary(f"{prefix}.rotary_emb", heads.size, positions(config), rope_parameters(config, kind))
    b.attention(f"{prefix}.attn")
