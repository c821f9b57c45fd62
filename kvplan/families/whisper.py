"""Whisper: every decoder layer has self attention and cross attention to the audio; the encoder caches nothing.

vLLM: model_executor/models/whisper.py (WhisperDecoderLayer, WhisperAttention, WhisperCrossAttention).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.errors import Refused
from kvplan.families.common import attention, model_window, num_layers
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("WhisperForConditionalGeneration",)

TRAITS = Traits(is_multimodal=True, is_encoder_decoder=True, supports_pp=False)

_SELF = ("decoder_layers, decoder_attention_heads", "model_executor/models/whisper.py, WhisperDecoderLayer")
_CROSS = ("decoder_layers, decoder_attention_heads", "model_executor/models/whisper.py, WhisperCrossAttention")


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    heads, width = config.integer("decoder_attention_heads"), config.integer("d_model")
    if width % heads:
        raise Refused(f"{config.where}: d_model {width} is no multiple of decoder_attention_heads {heads}.")
    self_attention = attention(
        model,
        "",
        _SELF,
        num_heads=heads,
        num_kv_heads=heads,
        head_size=width // heads,
        sliding_window=model_window(model),
    )
    cross = self_attention._replace(attn_type="encoder_decoder", why=_CROSS)
    for i in range(num_layers(config, "decoder_layers")):
        yield self_attention._replace(name=f".decoder.layers.{i}.layers.self_attn.attn")
        yield cross._replace(name=f".decoder.layers.{i}.layers.encoder_attn.attn")
