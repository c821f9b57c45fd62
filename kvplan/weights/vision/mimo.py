"""MiMo-V2-Omni's encoders of images and audio (vLLM: model_executor/models/mimo_v2_omni.py, mimo_audio.py).

Neither is quantised. A tokenizer of audio that lies beside the checkpoint is not counted.
"""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.builder import Builder

_AUDIO_DEFAULTS = {
    "add_post_norm": False,
    "audio_channels": 8,
    "group_size": 4,
    "input_local_attn_heads": 64,
    "input_local_dim": 1024,
    "input_local_intermediate_size": 4096,
    "input_local_layers": 6,
    "out_hidden_size": 4096,
    "projection_layers": 1,
    "speech_vocab_size": "1025-1025-129-129-129-129-129-129",
}
"""vLLM's `MimoAudioEncoderConfig`."""
_VISION_DEFAULTS = {"in_chans": 3, "kv_channels": 64, "qk_channels": 64}
"""vLLM's `Mimo_VLVisionConfig`, where published files leave a field out."""
_QWEN2_VOCABULARY = 151936
"""Rows of an embedding that is never read: the local transformer is a whole Qwen2 model."""


def mimo_vision(b: Builder, prefix: str, config: Config) -> None:
    """`MiMoVisionTransformer`."""
    config = config.with_defaults(_VISION_DEFAULTS)
    size, patch = config.integer("hidden_size"), config.integer("patch_size")
    kernel = config.integer("in_chans") * config.integer("temporal_patch_size") * patch * patch
    b.add(f"{prefix}.patch_embed.proj.weight", size * kernel)
    head = config.integer("qk_channels")
    b.rotary(f"{prefix}.rotary_pos_emb", head, 8192, {"partial_rotary_factor": 0.5})
    full = config.integers("fullatt_block_indexes")
    merged = size * config.integer("spatial_merge_size") ** 2
    for i in range(config.integer("depth", maximum=1000)):
        _block(b, f"{prefix}.blocks.{i}", config, sinks=config.truthy("use_sink") and i not in full)
    b.norm(f"{prefix}.merger.ln_q", size)
    b.column(f"{prefix}.merger.mlp.0", merged, merged, quantized=False)
    b.row(f"{prefix}.merger.mlp.2", merged, config.integer("out_hidden_size"), quantized=False)


def _block(b: Builder, prefix: str, config: Config, *, sinks: bool) -> None:
    size, heads, inner = (config.integer(key) for key in ("hidden_size", "num_heads", "intermediate_size"))
    head, value = config.integer("qk_channels"), config.integer("kv_channels")
    b.norm(f"{prefix}.norm1", size)
    b.norm(f"{prefix}.norm2", size)
    kv_heads = config.integer("num_key_value_heads")
    b.qkv(f"{prefix}.attn.qkv", size, head, heads, kv_heads, head_size_v=value, bias=True, quantized=False)
    b.row(f"{prefix}.attn.proj", heads * value, size, bias=True, quantized=False)
    b.column(f"{prefix}.mlp.gate_up_proj", size, (inner, inner), bias=True, quantized=False)
    b.row(f"{prefix}.mlp.down_proj", inner, size, bias=True, quantized=False)
    if sinks:
        b.add(f"{prefix}.attn.sinks", heads)


def mimo_audio(b: Builder, prefix: str, config: Config) -> None:
    """`MimoAudioEncoder`: whole on every rank."""
    config = config.with_defaults(_AUDIO_DEFAULTS)
    size, channels = config.integer("input_local_dim"), config.integer("audio_channels", maximum=1000)
    _local_transformer(b, f"{prefix}.input_local_transformer", config)
    for i, rows in enumerate(_vocabularies(config, channels)):
        b.add(f"{prefix}.speech_embeddings.{i}.weight", rows * size)
    grouped, out = size * config.integer("group_size"), config.integer("out_hidden_size")
    if config.integer("projection_layers", maximum=2) == 1:
        b.add(f"{prefix}.projection.weight", grouped * out)
        return
    b.add(f"{prefix}.projection.mlp.0.weight", 4 * grouped * grouped)
    b.add(f"{prefix}.projection.mlp.2.weight", 4 * grouped * out)


def _vocabularies(config: Config, channels: int) -> list[int]:
    """Rows of each channel's embedding: one number for all, or as many as channels, joined by hyphens."""
    text = str(config.get("speech_vocab_size"))
    parts = text.split("-")
    if not all(part.isdecimal() and 0 < len(part) < 10 for part in parts) or len(parts) not in (1, channels):
        raise config.error("speech_vocab_size", f"must be one number or {channels} joined by hyphens, got {text!r}")
    return [int(part) for part in parts] * (channels if len(parts) == 1 else 1)


def _local_transformer(b: Builder, prefix: str, config: Config) -> None:
    size, inner = config.integer("input_local_dim"), config.integer("input_local_intermediate_size")
    b.add(f"{prefix}.embed_tokens.weight", _QWEN2_VOCABULARY * size)
    for i in range(config.integer("input_local_layers", maximum=1000)):
        layer = f"{prefix}.layers.{i}"
        for name in ("q_proj", "k_proj", "v_proj"):
            b.add(f"{layer}.self_attn.{name}.weight", size * size)
            b.add(f"{layer}.self_attn.{name}.bias", size)
        b.add(f"{layer}.self_attn.o_proj.weight", size * size)
        for name in ("gate_proj", "up_proj", "down_proj"):
            b.add(f"{layer}.mlp.{name}.weight", size * inner)
        for name in ("input_layernorm", "post_attention_layernorm"):
            b.norm(f"{layer}.{name}", size)
    if config.truthy("add_post_norm"):
        b.norm(f"{prefix}.norm", size)
    frequencies = size // config.integer("input_local_attn_heads") // 2
    for name in ("inv_freq", "original_inv_freq"):
        b.add(f"{prefix}.rotary_emb.{name}", frequencies, "float32")
