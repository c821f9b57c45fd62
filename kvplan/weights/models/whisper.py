"""Whisper: an audio encoder and a decoder with cross attention; the output head is the embedding (vLLM: whisper.py)."""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.builder import Builder
from kvplan.weights.names import Packed

ARCHITECTURES = ("WhisperForConditionalGeneration",)
_KERNEL = 3


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """The embeddings are whole on every rank."""
    b.only_unquantized()
    config, size = b.config, b.config.integer("d_model")
    b.add("model.encoder.conv1.weight", size * config.integer("num_mel_bins") * _KERNEL)
    b.add("model.encoder.conv2.weight", size * size * _KERNEL)
    for name in ("conv1", "conv2"):
        b.add(f"model.encoder.{name}.bias", size)
    b.add("model.encoder.embed_positions.weight", config.integer("max_source_positions") * size)
    for i in range(config.integer("encoder_layers", maximum=1024)):
        prefix = f"model.encoder.layers.{i}"
        _self_attention(b, prefix, config.integer("encoder_attention_heads"))
        _feed_forward(b, prefix, config.integer("encoder_ffn_dim"))
    b.add("model.decoder.embed_tokens.weight", config.integer("vocab_size") * size)
    b.add("model.decoder.embed_positions.weight", config.integer("max_target_positions") * size)
    heads = config.integer("decoder_attention_heads")
    for i in range(config.integer("decoder_layers", maximum=1024)):
        prefix = f"model.decoder.layers.{i}"
        _self_attention(b, prefix, heads)
        b.attention(f"{prefix}.self_attn.attn")
        _cross_attention(b, prefix)
        _feed_forward(b, prefix, config.integer("decoder_ffn_dim"))
    for side in ("encoder", "decoder"):
        b.norm(f"model.{side}.layer_norm", size, bias=True)


def _self_attention(b: Builder, prefix: str, heads: int) -> None:
    size = b.config.integer("d_model")
    b.qkv(f"{prefix}.self_attn.qkv_proj", size, size // heads, heads, heads, bias=True)
    b.row(f"{prefix}.self_attn.out_proj", size, size, bias=True)
    b.norm(f"{prefix}.self_attn_layer_norm", size, bias=True)


def _cross_attention(b: Builder, prefix: str) -> None:
    size = b.config.integer("d_model")
    b.column(f"{prefix}.encoder_attn.q_proj", size, size, bias=True)
    b.column(f"{prefix}.encoder_attn.kv_proj", size, (size, size), bias=True)
    b.row(f"{prefix}.encoder_attn.out_proj", size, size, bias=True)
    b.attention(f"{prefix}.encoder_attn.attn")
    b.norm(f"{prefix}.encoder_attn_layer_norm", size, bias=True)


def _feed_forward(b: Builder, prefix: str, inner: int) -> None:
    size = b.config.integer("d_model")
    b.column(f"{prefix}.mlp.fc1", size, inner, bias=True)
    b.row(f"{prefix}.mlp.fc2", inner, size, bias=True)
    b.norm(f"{prefix}.final_layer_norm", size, bias=True)
