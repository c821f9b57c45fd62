"""Dense models on vLLM's Transformers backend: Transformers' classes, with vLLM's linear layers and attention.

vLLM: model_executor/models/transformers/base.py, causal.py. The matrices are those of Transformers' modeling files of
SmolLM3, Seed-OSS, Hunyuan, StarCoder 2, Phi, GPT-NeoX, CWM, Arcee, OLMo, Jais 2, GLM, VaultGemma, Helium,
Ministral and Youtu.
"""

from __future__ import annotations

from kvplan.families.transformers_backend import original
from kvplan.model import Model
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import NEVER, Frame, decoder
from kvplan.weights.mla import latent_attention
from kvplan.weights.models.llama import two_norms
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "SmolLM3ForCausalLM",
    "SeedOssForCausalLM",
    "HunYuanDenseV1ForCausalLM",
    "Starcoder2ForCausalLM",
    "PhiForCausalLM",
    "GPTNeoXForCausalLM",
    "CwmForCausalLM",
    "ArceeForCausalLM",
    "OlmoForCausalLM",
    "Jais2ForCausalLM",
    "GlmForCausalLM",
    "VaultGemmaForCausalLM",
    "TransformersForCausalLM",
)
_WRAPPED = ("HeliumForCausalLM", "MinistralForCausalLM", "YoutuForCausalLM")
"""Classes under `TransformersForCausalLM` whose tensors were compared with the engine's."""
_FRAMES = {
    "Starcoder2ForCausalLM": Frame(norm_bias=True),
    "Jais2ForCausalLM": Frame(norm_bias=True),
    "OlmoForCausalLM": Frame(norm_on=NEVER),
    "PhiForCausalLM": Frame(norm="final_layernorm", norm_bias=True),
    "GPTNeoXForCausalLM": Frame(embed="embed_in", norm="final_layer_norm", norm_bias=True),
}

_NO_WIDE_BIAS = ("HunYuanDenseV1ForCausalLM", "OlmoForCausalLM", "MinistralForCausalLM", "VaultGemmaForCausalLM")
_ROTATED = {"PhiForCausalLM": 0.5, "GPTNeoXForCausalLM": 0.25, "GlmForCausalLM": 0.5}
"""Share of a head that is rotated where the config does not say: the config classes' defaults."""


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    name = original(b.model)
    if name != b.model.architecture and name not in _WRAPPED:
        b.refuse(f"of {name} on vLLM's Transformers backend")
    layer = {
        "Starcoder2ForCausalLM": _starcoder2_layer,
        "PhiForCausalLM": _phi_layer,
        "GPTNeoXForCausalLM": _gpt_neox_layer,
        "ArceeForCausalLM": _ungated_layer,
        "Jais2ForCausalLM": _ungated_layer,
        "GlmForCausalLM": _glm_layer,
        "YoutuForCausalLM": _youtu_layer,
    }.get(name, _llama_layer)
    decoder(b, layer, _FRAMES.get(name, Frame()))
    if name == "VaultGemmaForCausalLM" and any(tensor.name == "model.embed_tokens.weight" for tensor in b.tensors):
        b.buffer("model.embed_tokens.embed_scale", 1)
    share = rope_parameters(b.config).get("partial_rotary_factor", _ROTATED.get(name, 1.0))
    rotated = int(heads_of(b.config).size * float(share))
    for part in ("inv_freq", "original_inv_freq"):
        b.buffer(f"model.rotary_emb.{part}", rotated // 2, "float32")


def _llama_layer(b: Builder, prefix: str, index: int) -> None:
    """Layers as Llama's; Hunyuan's have norms on queries and keys, Seed-OSS's a bias of its own for the output.

    OLMo's norms have no weights, Helium's output is as wide as its input whatever the heads are.
    """
    config, heads, attention, name = b.config, heads_of(b.config), f"{prefix}.self_attn", original(b.model)
    bias = name not in ("CwmForCausalLM", "MinistralForCausalLM") and config.truthy("attention_bias")
    own = {"SeedOssForCausalLM": config.truthy("attention_out_bias"), "HeliumForCausalLM": False}.get(name, bias)
    if name == "HeliumForCausalLM" and heads.query * heads.size != config.integer("hidden_size"):
        b.refuse("with heads that are not as wide as hidden_size together")
    projections(b, attention, heads, bias=bias, out_bias=own)
    if name == "HunYuanDenseV1ForCausalLM":
        qk_norms(b, attention, heads, HEAD, ("query_layernorm", "key_layernorm"))
    b.attention(f"{attention}.attn")
    wide = name not in _NO_WIDE_BIAS and config.truthy("mlp_bias")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=wide)
    if name == "VaultGemmaForCausalLM":
        for norm in ("input_layernorm", "pre_feedforward_layernorm"):
            b.norm(f"{prefix}.{norm}", config.integer("hidden_size"))
    elif name != "OlmoForCausalLM":
        two_norms(b, prefix)


def _glm_layer(b: Builder, prefix: str, index: int) -> None:
    """Gate and up projections are one matrix, which is split like any other."""
    config, hidden, width = b.config, b.config.integer("hidden_size"), b.config.integer("intermediate_size")
    projections(b, f"{prefix}.self_attn", heads_of(config), bias=config.truthy("attention_bias"), out_bias=False)
    b.attention(f"{prefix}.self_attn.attn")
    b.column(f"{prefix}.mlp.gate_up_proj", hidden, 2 * width)
    b.row(f"{prefix}.mlp.down_proj", width, hidden)
    two_norms(b, prefix)


def _youtu_layer(b: Builder, prefix: str, index: int) -> None:
    """Latent attention with a gated feed-forward layer."""
    if b.config.truthy("attention_bias"):
        b.refuse("with attention_bias")
    latent_attention(b, f"{prefix}.self_attn", scales=".attn", rotary=False)
    gated_mlp(b, f"{prefix}.mlp", b.config.integer("intermediate_size"))
    two_norms(b, prefix)


def _ungated_layer(b: Builder, prefix: str, index: int) -> None:
    """Arcee and Jais 2: a feed-forward layer without a gate; Jais 2's norms have biases."""
    config, bias = b.config, b.config.truthy("attention_bias")
    projections(b, f"{prefix}.self_attn", heads_of(config), bias=bias)
    b.attention(f"{prefix}.self_attn.attn")
    _plain_mlp(b, f"{prefix}.mlp", ("up_proj", "down_proj"), bias=config.truthy("mlp_bias"))
    for name in ("input_layernorm", "post_attention_layernorm"):
        b.norm(f"{prefix}.{name}", config.integer("hidden_size"), bias=b.model.architecture == "Jais2ForCausalLM")


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
