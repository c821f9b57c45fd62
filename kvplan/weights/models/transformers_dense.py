"""Dense models on vLLM's Transformers backend: Transformers' classes, with vLLM's linear layers and attention.

vLLM: model_executor/models/transformers/base.py, causal.py. The matrices are those of Transformers' modeling files of
SmolLM3, Seed-OSS, Hunyuan, StarCoder 2, Phi and GPT-NeoX.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "SmolLM3ForCausalLM",
    "SeedOssForCausalLM",
    "HunYuanDenseV1ForCausalLM",
    "Starcoder2ForCausalLM",
    "PhiForCausalLM",
    "GPTNeoXForCausalLM",
)
_FRAMES = {
    "Starcoder2ForCausalLM": Frame(norm_bias=True),
    "PhiForCausalLM": Frame(norm="final_layernorm", norm_bias=True),
    "GPTNeoXForCausalLM": Frame(embed="embed_in", norm="final_layer_norm", norm_bias=True),
}

_ROTATED = {"PhiForCausalLM": 0.5, "GPTNeoXForCausalLM": 0.25}
"""Share of a head that is rotated where the config does not say: the config classes' defaults."""


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    name = b.model.architecture
    layer = {
        "Starcoder2ForCausalLM": _starcoder2_layer,
        "PhiForCausalLM": _phi_layer,
        "GPTNeoXForCausalLM": _gpt_neox_layer,
    }.get(name, _llama_layer)
    decoder(b, layer, _FRAMES.get(name, Frame()))
    share = rope_parameters(b.config).get("partial_rotary_factor", _ROTATED.get(name, 1.0))
    rotated = int(heads_of(b.config).size * float(share))
    for part in ("inv_freq", "original_inv_freq"):
        b.buffer(f"model.rotary_emb.{part}", rotated // 2, "float32")


def _llama_layer(b: Builder, prefix: str, index: int) -> None:
    """Layers as Llama's; Hunyuan's have norms on queries and keys, Seed-OSS's a bias of its own for the output."""
    config, heads, attention = b.config, heads_of(b.config), f"{prefix}.self_attn"
    bias = config.truthy("attention_bias")
    own = config.truthy("attention_out_bias") if b.model.architecture == "SeedOssForCausalLM" else bias
    projections(b, attention, heads, bias=bias, out_bias=own)
    if b.model.architecture == "HunYuanDenseV1ForCausalLM":
        qk_norms(b, attention, heads, HEAD, ("query_layernorm", "key_layernorm"))
    b.attention(f"{attention}.attn")
    wide = b.model.architecture != "HunYuanDenseV1ForCausalLM" and config.truthy("mlp_bias")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=wide)
    two_norms(b, prefix)


def _starcoder2_layer(b: Builder, prefix: str, index: int) -> None:
    config, bias = b.config, b.config.truthy("use_bias")
    projections(b, f"{prefix}.self_attn", heads_of(config), bias=bias)
    b.attention(f"{prefix}.self_attn.attn")
    _plain_mlp(b, f"{prefix}.mlp", ("c_fc", "c_proj"), bias=bias)
    for name in ("input_layernorm", "post_attention_layernorm"):
        b.norm(f"{prefix}.{name}", config.integer("hidden_size"), bias=True)


def _phi_layer(b: Builder, prefix: str, index: int) -> None:
    """One norm for attention and feed-forward layer, which run side by side."""
    config = b.config
    if config.truthy("qk_layernorm"):
        b.refuse("with qk_layernorm")
    projections(b, f"{prefix}.self_attn", heads_of(config), bias=True, out="dense")
    b.attention(f"{prefix}.self_attn.attn")
    _plain_mlp(b, f"{prefix}.mlp", ("fc1", "fc2"), bias=True)
    b.norm(f"{prefix}.input_layernorm", config.integer("hidden_size"), bias=True)


def _gpt_neox_layer(b: Builder, prefix: str, index: int) -> None:
    """Queries, keys and values come out of one matrix that is split like any other."""
    config, attention = b.config, f"{prefix}.attention"
    hidden, bias = config.integer("hidden_size"), config.boolean("attention_bias", True)
    b.column(f"{attention}.query_key_value", hidden, 3 * hidden, bias=bias)
    b.row(f"{attention}.dense", hidden, hidden, bias=bias)
    b.attention(f"{attention}.attn")
    _plain_mlp(b, f"{prefix}.mlp", ("dense_h_to_4h", "dense_4h_to_h"), bias=True)
    for name in ("input_layernorm", "post_attention_layernorm"):
        b.norm(f"{prefix}.{name}", hidden, bias=True)


def _plain_mlp(b: Builder, prefix: str, names: tuple[str, str], *, bias: bool) -> None:
    """A feed-forward layer without a gate."""
    hidden, width = b.config.integer("hidden_size"), b.config.integer("intermediate_size")
    b.column(f"{prefix}.{names[0]}", hidden, width, bias=bias)
    b.row(f"{prefix}.{names[1]}", width, hidden, bias=bias)
