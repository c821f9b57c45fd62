"""Dense decoders of the Llama kind: fused q, k and v, a gated feed-forward layer, two norms.

vLLM: model_executor/models/llama.py, ernie45.py, mistral.py, qwen2.py, qwen3.py, mimo.py, internlm2.py, phi3.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.model import Model
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, SHARED, Frame, decoder
from kvplan.weights.names import GATE_UP, NO_RENAMES, QKV, Renames

ARCHITECTURES = (
    "LlamaForCausalLM",
    "LLaMAForCausalLM",
    "IQuestCoderForCausalLM",
    "TeleChat3ForCausalLM",
    "InternLM3ForCausalLM",
    "MistralForCausalLM",
    "Ministral3ForCausalLM",
    "Phi3ForCausalLM",
    "Qwen2ForCausalLM",
    "MiMoForCausalLM",
    "Qwen3ForCausalLM",
    "InternLM2ForCausalLM",
    "Ernie4_5ForCausalLM",
)

_QWEN2 = ("Qwen2ForCausalLM", "MiMoForCausalLM")
_FRAME = Frame(embed_on=SHARED)
_INTERNLM2 = Frame(embed="tok_embeddings", head="output", embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)


def packed(model: Model) -> dict[str, tuple[str, ...]]:
    if model.architecture == "InternLM2ForCausalLM":
        return {"wqkv": ("wqkv",), "gate_up_proj": ("w1", "w3")}
    if model.architecture == "Phi3ForCausalLM":
        return {"qkv_proj": ("qkv_proj",), "gate_up_proj": ("gate_up_proj",)}
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames | None:
    return NO_RENAMES


def weights(b: Builder) -> None:
    architecture = b.model.architecture
    if architecture == "InternLM2ForCausalLM":
        decoder(b, _internlm2_layer, _INTERNLM2)
    elif architecture == "Qwen3ForCausalLM":
        decoder(b, qwen3_layer, _FRAME)
    elif architecture in _QWEN2:
        decoder(b, qwen2_layer, _FRAME)
    else:
        decoder(b, llama_layer, _FRAME)


def llama_layer(b: Builder, prefix: str, index: int) -> None:
    """`LlamaDecoderLayer`: biases where attention_bias, bias, qkv_bias or mlp_bias say so."""
    config = b.config
    if config.truthy("ada_rms_norm_t_cond"):
        raise Refused(f"{config.where}: ada_rms_norm_t_cond is not known to kvplan; give --weights-bytes.")
    bias = config.truthy("attention_bias") or config.truthy("bias")
    heads = heads_of(config)
    projections(
        b,
        f"{prefix}.self_attn",
        heads,
        bias=config.truthy("qkv_bias") if "qkv_bias" in config else bias,
        out_bias=bias and b.model.architecture != "Ernie4_5ForCausalLM",
    )
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=config.truthy("mlp_bias"))
    two_norms(b, prefix)


def two_norms(b: Builder, prefix: str) -> None:
    """The norms before attention and before the feed-forward layer."""
    for name in ("input_layernorm", "post_attention_layernorm"):
        b.norm(f"{prefix}.{name}", b.config.integer("hidden_size"))


def qwen2_layer(b: Builder, prefix: str, index: int) -> None:
    """`Qwen2DecoderLayer`: a bias on q, k and v; norms on queries and keys where qk_norm says so."""
    config = b.config
    check_dual_chunk(b)
    heads = heads_of(config, divided=True)
    projections(b, f"{prefix}.self_attn", heads, bias=True, out_bias=False)
    if config.truthy("qk_norm"):
        qk_norms(b, f"{prefix}.self_attn", heads, HEAD)
    b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.self_attn.attn")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def qwen3_attention(b: Builder, prefix: str, *, positions_factor: int = 4) -> None:
    """`Qwen3Attention`: norms on queries and keys."""
    config = b.config
    check_dual_chunk(b)
    heads = heads_of(config)
    projections(b, prefix, heads, bias=config.truthy("attention_bias"), out_bias=False)
    qk_norms(b, prefix, heads, HEAD)
    length, parameters = positions(config), rope_parameters(config)
    b.rotary(f"{prefix}.rotary_emb", heads.size, length, parameters, positions_factor=positions_factor)
    b.attention(f"{prefix}.attn")


def check_dual_chunk(b: Builder) -> None:
    if b.config.get("dual_chunk_attention_config"):
        raise Refused(f"{b.config.where}: dual_chunk_attention_config is not known to kvplan; give --weights-bytes.")


def qwen3_layer(b: Builder, prefix: str, index: int, *, positions_factor: int = 4) -> None:
    qwen3_attention(b, f"{prefix}.self_attn", positions_factor=positions_factor)
    gated_mlp(b, f"{prefix}.mlp", b.config.integer("intermediate_size"))
    two_norms(b, prefix)


def _internlm2_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    heads = heads_of(config, divided=True)
    projections(b, f"{prefix}.attention", heads, qkv="wqkv", out="wo")
    b.rotary(f"{prefix}.attention.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{prefix}.attention.attn")
    gated_mlp(b, f"{prefix}.feed_forward", config.integer("intermediate_size"), names=("gate_up_proj", "w2"))
    for name in ("attention_norm", "ffn_norm"):
        b.norm(f"{prefix}.{name}", config.integer("hidden_size"))
