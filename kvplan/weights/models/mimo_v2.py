"""MiMo-V2: full and sliding layers with heads of their own, routed experts (vLLM: model_executor/models/mimo_v2.py)."""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.model import Model
from kvplan.weights.attention import Heads, gated_mlp, positions, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import TIED, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, router
from kvplan.weights.names import GATE_UP, QKV, Packed, Renames
from kvplan.weights.parts import element_bytes
from kvplan.weights.vision.mimo import mimo_audio, mimo_vision

ARCHITECTURES = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM")
_BLOCK = 128


def packed(model: Model) -> Packed:
    if model.architecture == "MiMoV2ForCausalLM":
        return {"qkv_proj": ("qkv_proj",), **GATE_UP}
    return {} if model.architecture == "MiMoV2OmniForCausalLM" else {**QKV, **GATE_UP}


def renames(model: Model) -> Renames | None:
    if model.architecture != "MiMoV2OmniForCausalLM":
        return None
    return Renames(
        prefixes=(
            ("speech_embeddings.", "audio_encoder.speech_embeddings."),
            ("model.language_model.", "language_model.model."),
            ("model.visual.", "visual."),
            ("lm_head.", "language_model.lm_head."),
            ("model.", "language_model.model."),
        )
    )


def weights(b: Builder) -> None:
    outer = ""
    if b.model.architecture == "MiMoV2OmniForCausalLM":
        outer = "language_model."
        _encoders(b)
    decoder(b, _layer, Frame(embed_on=TIED, outer=outer), tie=False)


def _encoders(b: Builder) -> None:
    root = b.model.root
    vision, audio = root.section("vision_config"), root.section("audio_config")
    if vision is None:
        raise root.error("vision_config", "is missing, and vLLM cannot build the model without it")
    if b.has_tower("image", "video"):
        mimo_vision(b, "visual", vision)
    if audio is not None and b.has_tower("audio"):
        mimo_audio(b, "audio_encoder", audio)


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    sliding = config.integers("hybrid_layer_pattern")[index] == 1
    attention(b, f"{prefix}.self_attn", sliding=sliding)
    frequencies = config.get("moe_layer_freq")
    if (
        isinstance(frequencies, list)
        and config.sequence("moe_layer_freq", length=config.integer("num_hidden_layers"))[index]
    ):
        _experts(b, f"{prefix}.mlp")
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def attention(b: Builder, prefix: str, *, sliding: bool, module: bool = False) -> None:
    """`MiMoV2Attention`: sliding layers read their heads from the keys that begin with ``swa_``.

    ``module``: that of a prediction module, whose output projection is never quantised.
    """
    config, key = b.config, "swa_" if sliding else ""
    size = config.integer(f"{key}head_dim")
    value = config.optional_integer(f"{key}v_head_dim") or size
    heads = Heads(config.integer(f"{key}num_attention_heads"), config.integer(f"{key}num_key_value_heads"), size, value)
    hidden, bias = config.integer("hidden_size"), config.truthy("attention_bias")
    rows = 0 if module else _chunk_rows(b, heads)
    if rows:
        chunks = config.integer("num_key_value_heads")
        b.column(f"{prefix}.qkv_proj", hidden, (heads.query * size, chunks * rows), bias=bias)
    else:
        b.qkv(f"{prefix}.qkv_proj", hidden, size, heads.query, heads.kv, head_size_v=value, bias=bias)
    b.row(f"{prefix}.o_proj", heads.query * value, hidden, quantized=not module)
    merged = rope_parameters(config)
    theta = config.get("rope_theta", merged.get("rope_theta", 1000000))
    parameters = {
        "rope_type": "default",
        "rope_theta": config.get("swa_rope_theta", theta) if sliding else theta,
        "partial_rotary_factor": config.number("partial_rotary_factor", merged.get("partial_rotary_factor", 1.0)),
    }
    b.rotary(f"{prefix}.rotary_emb", size, positions(config, 32768), parameters)
    if sliding and config.truthy("add_swa_attention_sink_bias"):
        b.add(f"{prefix}.attention_sink_bias", b.model.heads_per_rank(heads.query))
    b.attention(f"{prefix}.attn")


def _chunk_rows(b: Builder, heads: Heads) -> int:
    """Padded rows of keys and values in a chunk of a fused checkpoint; 0 where they lie as usual.

    (`_fused_qkv_kv_chunk_rows`: a rank that owns several chunks keeps the scales of each chunk's blocks.)
    """
    config, ranks = b.config, b.tensor_parallel_size
    if config.get("attention_projection_layout") != "fused_qkv" or not getattr(b.scheme, "block", None):
        return 0
    chunks = config.integer("num_key_value_heads")
    if chunks <= ranks or chunks % ranks or heads.query % chunks or heads.kv % chunks:
        return 0
    keys, values = (heads.kv // chunks * size for size in (heads.size, heads.size_v or heads.size))
    if heads.query // chunks * heads.size % _BLOCK or (keys % _BLOCK == 0 and values % _BLOCK == 0):
        return 0
    return -(-(keys + values) // _BLOCK) * _BLOCK


def _experts(b: Builder, prefix: str) -> None:
    config = b.config
    count = config.integer("n_routed_experts")
    dtype = config.text("moe_router_dtype", "float32")
    try:
        element_bytes(dtype)
    except KeyError:
        raise Refused(f"{config.where}: moe_router_dtype {dtype!r} is not a dtype that kvplan knows.") from None
    router(b, f"{prefix}.gate", count, dtype=dtype, correction=CORRECTION)
    b.experts(prefix, count, config.integer("hidden_size"), config.integer("moe_intermediate_size"))
