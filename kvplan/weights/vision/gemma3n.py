"""Gemma 3n's towers: a MobileNet of timm for images, a conformer for audio (Transformers: models/gemma3n)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.builder import Builder

_MOBILENET = {"mobilenetv5_300m_enc": 294_126_912}
"""Elements of timm's encoders, counted from timm's own modules: no size of theirs stands in the config."""
_STRIDES = [[2, 2], [2, 2]]


def gemma3n_vision(b: Builder, config: Config) -> None:
    name = config.text("architecture")
    if name not in _MOBILENET:
        b.refuse(f"with vision_config.architecture {name}")
    b.add("vision_tower.timm_model", _MOBILENET[name])


def gemma3n_audio(b: Builder, config: Config) -> None:
    _convolutions(b, "audio_tower.subsample_conv_projection", config)
    for i in range(config.integer("conf_num_hidden_layers", maximum=1024)):
        _block(b, f"audio_tower.conformer.{i}", config)


def _convolutions(b: Builder, prefix: str, config: Config) -> None:
    """`Gemma3nAudioSubSampleConvProjection`: two convolutions, each of which halves the frequencies."""
    channels = config.integers("sscp_conv_channel_size", length=2)
    kernels = config.get("sscp_conv_kernel_size")
    if config.get("sscp_conv_stride_size") != _STRIDES or kernels != [[3, 3], [3, 3]]:
        b.refuse("with other convolutions than 3 x 3 at strides of 2 before the audio tower")
    before = 1
    for i, count in enumerate(channels):
        b.add(f"{prefix}.conv_{i}.conv.weight", count * before * 9)
        b.norm(f"{prefix}.conv_{i}.norm", count)
        before = count
    frequencies = -(-config.integer("input_feat_size") // 4)
    b.add(f"{prefix}.input_proj_linear.weight", before * frequencies * config.integer("hidden_size"))


def _block(b: Builder, prefix: str, config: Config) -> None:
    """`Gemma3nAudioConformerBlock`."""
    size = config.integer("hidden_size")
    for name in ("ffw_layer_start", "ffw_layer_end"):
        b.norm(f"{prefix}.{name}.pre_layer_norm", size)
        b.norm(f"{prefix}.{name}.post_layer_norm", size)
        b.add(f"{prefix}.{name}.ffw_layer_1.weight", 4 * size * size)
        b.add(f"{prefix}.{name}.ffw_layer_2.weight", 4 * size * size)
        b.add(f"{prefix}.{name}.gradient_clipping", 1)
    _attention(b, f"{prefix}.attention", config)
    convolution = f"{prefix}.lconv1d"
    b.add(f"{convolution}.linear_start.weight", 2 * size * size)
    b.add(f"{convolution}.depthwise_conv1d.weight", size * config.integer("conf_conv_kernel_size"))
    b.add(f"{convolution}.linear_end.weight", size * size)
    for name in ("pre_layer_norm", "conv_norm"):
        b.norm(f"{convolution}.{name}", size)
    b.add(f"{convolution}.gradient_clipping", 1)
    b.norm(f"{prefix}.norm", size)
    b.add(f"{prefix}.gradient_clipping", 1)


def _attention(b: Builder, prefix: str, config: Config) -> None:
    """`Gemma3nAudioConformerAttention`: chunks of tokens that see some before and after them."""
    size, heads = config.integer("hidden_size"), config.integer("conf_num_attention_heads")
    for name in ("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.relative_position_embedding.pos_proj", "post"):
        b.add(f"{prefix}.{name}.weight", size * size)
    for name in ("pre_attn_norm", "post_norm"):
        b.norm(f"{prefix}.{name}", size)
    b.add(f"{prefix}.gradient_clipping", 1)
    inner = f"{prefix}.attn"
    b.add(f"{inner}.per_dim_scale", size // heads)
    b.buffer(f"{inner}.q_scale", 1)
    b.buffer(f"{inner}.softcap", 1, "float32")
    b.buffer(f"{inner}.relative_position_embedding.inv_timescales", size // 2, "float32")
    chunk = config.integer("conf_attention_chunk_size")
    before = max(0, config.integer("conf_attention_context_left") - 1)
    after = config.integer("conf_attention_context_right", minimum=0)
    b.buffer(f"{inner}.local_causal_valid_mask", chunk * (chunk + before + after), "bool")
