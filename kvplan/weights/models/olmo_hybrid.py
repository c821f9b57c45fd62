"""OLMo hybrid: gated delta net layers beside attention (vLLM: model_executor/models/olmo_hybrid.py)."""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import gated_mlp, heads_of, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.names import GATE_UP, QKV, Packed

ARCHITECTURES = ("OlmoHybridForCausalLM",)


def packed(model: Model) -> Packed:
    return {**QKV, **GATE_UP, "in_proj_qkvg": ("q_proj", "k_proj", "v_proj", "g_proj")}


def weights(b: Builder) -> None:
    decoder(b, _layer, Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS))


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    hidden = config.integer("hidden_size")
    if config.texts("layer_types")[index] == "linear_attention":
        _delta_net(b, f"{prefix}.linear_attn")
        norms = ("input_layernorm", "post_attention_layernorm")
    else:
        _attention(b, f"{prefix}.self_attn")
        norms = ("post_attention_layernorm", "post_feedforward_layernorm")
    for name in norms:
        b.norm(f"{prefix}.{name}", hidden)
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))


def _attention(b: Builder, prefix: str) -> None:
    """Norms over all heads of the model, whole on every rank."""
    config = b.config
    heads = heads_of(config, divided=True)
    projections(b, prefix, heads)
    b.norm(f"{prefix}.q_norm", config.integer("hidden_size"))
    b.norm(f"{prefix}.k_norm", heads.kv * heads.size)
    parameters = rope_parameters(config)
    if parameters.get("rope_theta") is not None:
        b.rotary(f"{prefix}.rotary_emb", heads.size, positions(config), parameters)
    b.attention(f"{prefix}.attn")


def _delta_net(b: Builder, prefix: str) -> None:
    config = b.config
    hidden, values = config.integer("hidden_size"), config.integer("linear_num_value_heads")
    key = config.integer("linear_num_key_heads") * config.integer("linear_key_head_dim")
    value = values * config.integer("linear_value_head_dim")
    b.column(f"{prefix}.in_proj_qkvg", hidden, (key, key, value, value))
    for name in ("b_proj", "a_proj"):
        b.column(f"{prefix}.{name}", hidden, values)
    b.column(f"{prefix}.conv1d", config.integer("linear_conv_kernel_dim"), 2 * key + value, quantized=False)
    own = b.divide(values, "linear_num_value_heads")
    b.add(f"{prefix}.dt_bias", own)
    b.add(f"{prefix}.A_log", own)
    b.norm(f"{prefix}.o_norm", config.integer("linear_value_head_dim"))
    b.row(f"{prefix}.o_proj", value, hidden)
