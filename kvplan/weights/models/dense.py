"""Dense decoders that differ from Llama in their norms or in where parts lie: Granite, Command R, EXAONE 4, GLM-4.

vLLM: model_executor/models/granite.py, commandr.py, exaone4.py, glm4.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import HEAD, RANK, gated_mlp, heads_of, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, NEVER, SHARED, TIED, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.names import GATE_UP, NO_RENAMES, QKV, Renames

ARCHITECTURES = (
    "GraniteForCausalLM",
    "GraniteSWAForCausalLM",
    "CohereForCausalLM",
    "Cohere2ForCausalLM",
    "Exaone4ForCausalLM",
    "Glm4ForCausalLM",
)


def packed(model: Model) -> dict[str, tuple[str, ...]]:
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames | None:
    return None if model.architecture == "Glm4ForCausalLM" else NO_RENAMES


def weights(b: Builder) -> None:
    architecture = b.model.architecture
    if architecture.startswith("Cohere"):
        decoder(b, _cohere_layer, Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=NEVER, embed_quantized=False))
    elif architecture.startswith("Granite"):
        decoder(b, _granite_layer, Frame(embed_on=TIED))
    elif architecture == "Exaone4ForCausalLM":
        decoder(b, _exaone4_layer, Frame(embed_on=TIED))
    else:
        decoder(b, _glm4_layer, Frame(embed_on=SHARED))


def _granite_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    bias = config.truthy("attention_bias") or config.truthy("bias")
    heads = heads_of(config)
    projections(b, f"{prefix}.self_attn", heads, bias=bias)
    if config.get("layer_rope_theta") is not None:
        b.refuse("with layer_rope_theta")
    if config.truthy("attention_sinks", config.get("layer_types") is not None):
        b.add(f"{prefix}.self_attn.sinks", b.model.heads_per_rank(heads.query))
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=config.truthy("mlp_bias"))
    two_norms(b, prefix)


def _cohere_layer(b: Builder, prefix: str, index: int) -> None:
    """One norm for attention and feed-forward layer, which run side by side; no norm has a bias."""
    config = b.config
    heads = heads_of(config)
    projections(b, f"{prefix}.self_attn", heads)
    length = config.optional_integer("model_max_length") or positions(config)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, length, rope_parameters(config), is_neox_style=False)
    b.attention(f"{prefix}.self_attn.attn")
    if config.truthy("use_qk_norm"):
        qk_norms(b, f"{prefix}.self_attn", heads, RANK)
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    b.norm(f"{prefix}.input_layernorm", config.integer("hidden_size"))


def _exaone4_layer(b: Builder, prefix: str, index: int) -> None:
    """Norms come after attention and after the feed-forward layer."""
    config = b.config
    bias = config.truthy("attention_bias") or config.truthy("bias")
    heads = heads_of(config)
    projections(b, f"{prefix}.self_attn", heads, bias=bias)
    qk_norms(b, f"{prefix}.self_attn", heads, HEAD)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=config.truthy("mlp_bias"))
    for name in ("post_attention_layernorm", "post_feedforward_layernorm"):
        b.norm(f"{prefix}.{name}", config.integer("hidden_size"))


def _glm4_layer(b: Builder, prefix: str, index: int) -> None:
    """Half of each head is rotated unless the config says otherwise; two more norms than Llama."""
    config = b.config
    heads = heads_of(config)
    projections(b, f"{prefix}.self_attn", heads, bias=config.truthy("attention_bias"), out_bias=False)
    rotary = {"partial_rotary_factor": 0.5, **rope_parameters(config)}
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rotary, is_neox_style=False)
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)
    for name in ("post_self_attn_layernorm", "post_mlp_layernorm"):
        b.norm(f"{prefix}.{name}", config.integer("hidden_size"))
