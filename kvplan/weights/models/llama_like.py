"""Dense decoders close to Llama, as vLLM's own model files have them: HyperCLOVA X, Solar, Orion, StableLM, Nemotron.

vLLM: model_executor/models/hyperclovax.py, solar.py, orion.py, stablelm.py, nemotron.py, minicpm.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import gated_mlp, heads_of, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, TIED, Frame, decoder
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "HyperCLOVAXForCausalLM",
    "SolarForCausalLM",
    "OrionForCausalLM",
    "StableLmForCausalLM",
    "NemotronForCausalLM",
    "MiniCPMForCausalLM",
    "MiniCPM3ForCausalLM",
)
_EVERYWHERE = Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)
_FRAMES = {
    "OrionForCausalLM": _EVERYWHERE._replace(norm_bias=True),
    "StableLmForCausalLM": _EVERYWHERE._replace(norm_bias=True),
    "MiniCPMForCausalLM": _EVERYWHERE,
    "MiniCPM3ForCausalLM": _EVERYWHERE,
    "NemotronForCausalLM": Frame(embed_on=TIED, norm_bias=True),
}
_DIVIDED = ("OrionForCausalLM", "StableLmForCausalLM", "MiniCPMForCausalLM", "MiniCPM3ForCausalLM")
"""Classes that read no head_dim."""

_ROTATED = {"StableLmForCausalLM": 0.25, "NemotronForCausalLM": 0.5}
"""Share of a head that is rotated where the config does not say: the config classes' defaults."""


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    decoder(b, _layer, _FRAMES.get(b.model.architecture, Frame(embed_on=TIED)))


def _layer(b: Builder, prefix: str, index: int) -> None:
    config, name = b.config, b.model.architecture
    hidden, width, attention = config.integer("hidden_size"), config.integer("intermediate_size"), f"{prefix}.self_attn"
    if name == "MiniCPM3ForCausalLM":
        _latent(b, attention)
    else:
        _grouped(b, attention)
    b.attention(f"{attention}.attn")
    wide = name not in _DIVIDED and config.truthy("mlp_bias")
    if name == "NemotronForCausalLM":
        b.column(f"{prefix}.mlp.up_proj", hidden, width, bias=wide)
        b.row(f"{prefix}.mlp.down_proj", width, hidden, bias=wide)
    elif config.truthy("num_experts"):
        b.refuse("with num_experts")
    else:
        gated_mlp(b, f"{prefix}.mlp", width, bias=wide)
    norms = ["input_layernorm", "post_attention_layernorm"]
    if name == "HyperCLOVAXForCausalLM" and config.truthy("use_post_norm"):
        norms += ["post_norm1", "post_norm2"]
    for norm in norms:
        b.norm(f"{prefix}.{norm}", hidden, bias=_FRAMES.get(name, Frame()).norm_bias)


def _grouped(b: Builder, attention: str) -> None:
    config, name = b.config, b.model.architecture
    heads = heads_of(config, divided=name in _DIVIDED)
    if name == "StableLmForCausalLM":
        projections(b, attention, heads, bias=config.truthy("use_qkv_bias"), out_bias=False)
    else:
        bias = name not in _DIVIDED and (config.truthy("attention_bias") or config.truthy("bias"))
        projections(b, attention, heads, bias=bias)
    rotary = {"partial_rotary_factor": _ROTATED.get(name, 1.0), **rope_parameters(config)}
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rotary)


def _latent(b: Builder, attention: str) -> None:
    """`MiniCPM3Attention`: projections as latent attention has them, each a matrix of its own."""
    config = b.config
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    low, latent, value = (config.integer(name) for name in ("q_lora_rank", "kv_lora_rank", "v_head_dim"))
    plain, rope = config.integer("qk_nope_head_dim"), config.integer("qk_rope_head_dim")
    b.replicated(f"{attention}.q_a_proj", hidden, low)
    b.norm(f"{attention}.q_a_layernorm", low)
    b.column(f"{attention}.q_b_proj", low, heads * (plain + rope))
    b.replicated(f"{attention}.kv_a_proj_with_mqa", hidden, latent + rope)
    b.norm(f"{attention}.kv_a_layernorm", latent)
    b.column(f"{attention}.kv_b_proj", latent, heads * (plain + value))
    b.row(f"{attention}.o_proj", heads * value, hidden)
    b.rotary(f"{attention}.rotary_emb", rope, positions(config), rope_parameters(config))
