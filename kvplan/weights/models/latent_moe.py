"""A.X K1, Pangu Ultra MoE and LongCat-Flash: DeepSeek-V3's layers with more norms, or two of each.

vLLM: model_executor/models/AXK1.py, openpangu.py, longcat_flash.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import gated_mlp, positions, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import FIRST, TIED, Frame, decoder
from kvplan.weights.mla import latent_attention
from kvplan.weights.models.deepseek import check_latent
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "AXK1ForCausalLM",
    "PanguUltraMoEForCausalLM",
    "LongcatFlashForCausalLM",
)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    check_latent(b)
    if b.model.architecture == "AXK1ForCausalLM":
        decoder(b, _axk1_layer, Frame(embed_on=FIRST), tie=False)
    elif b.model.architecture == "LongcatFlashForCausalLM":
        if "mla_scale_q_lora" not in b.config or "mla_scale_kv_lora" not in b.config:
            b.refuse("without mla_scale_q_lora and mla_scale_kv_lora, which vLLM reads,")
        frame = Frame(embed_on=FIRST, embed_quantized=False)
        decoder(b, _longcat_layer, frame, count=b.config.integer("num_layers"), tie=False)
    else:
        decoder(b, _pangu_layer, Frame(embed_on=TIED))


def _axk1_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    latent_attention(b, f"{prefix}.self_attn")
    if config.get("mlp_layer_types") is not None:
        routed = config.texts("mlp_layer_types")[index] == "sparse"
    else:
        first, step = config.integer("first_k_dense_replace", 1, minimum=0), config.integer("moe_layer_freq", 1)
        routed = index >= first and index % step == 0
    if routed:
        _experts(b, f"{prefix}.mlp", corrected=config.get("topk_method", "noaux_tc") == "noaux_tc")
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)
    b.norm(f"{prefix}.post_mlp_layernorm", config.integer("hidden_size"))


def _pangu_layer(b: Builder, prefix: str, index: int) -> None:
    """Positions are always DeepSeek's, with a factor of 1."""
    config, attention = b.config, f"{prefix}.self_attn"
    if config.integer("param_sink_number", 0, minimum=0):
        b.refuse("with param_sink_number")
    latent_attention(b, attention, rotary=False)
    length = positions(config)
    rotary = {
        "rope_theta": rope_parameters(config).get("rope_theta"),
        "rope_type": "deepseek_yarn",
        "factor": 1,
        "original_max_position_embeddings": length,
    }
    b.rotary(f"{attention}.rotary_emb", config.integer("qk_rope_head_dim"), length, rotary, is_neox_style=False)
    first = config.optional_integer("first_k_dense_replace", minimum=0)
    if config.get("n_routed_experts") is not None and first is not None and index >= first:
        _experts(b, f"{prefix}.mlp", corrected=config.truthy("router_enable_expert_bias"))
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=config.truthy("mlp_bias"))
    two_norms(b, prefix)
    if config.truthy("sandwich_norm"):
        for name in ("pre_mlp_layernorm", "post_mlp_layernorm"):
            b.norm(f"{prefix}.{name}", config.integer("hidden_size"))


def _experts(b: Builder, prefix: str, *, corrected: bool) -> None:
    config = b.config
    count, size = config.integer("n_routed_experts"), config.integer("moe_intermediate_size")
    router(b, f"{prefix}.gate", count, correction=CORRECTION if corrected else None)
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_experts", size * shared)
    b.experts(prefix, count, config.integer("hidden_size"), size)


def _longcat_layer(b: Builder, prefix: str, index: int) -> None:
    """Two attentions and two dense layers around the experts, of which some do nothing and have no weights."""
    config, hidden = b.config, b.config.integer("hidden_size")
    for i in range(2):
        latent_attention(b, f"{prefix}.self_attn.{i}")
        for norm in ("input_layernorm", "post_attention_layernorm"):
            b.norm(f"{prefix}.{norm}.{i}", hidden)
        gated_mlp(b, f"{prefix}.mlps.{i}", config.integer("ffn_hidden_size"))
    count = config.integer("n_routed_experts")
    every = count + config.integer("zero_expert_num", 0, minimum=0)
    router(b, f"{prefix}.mlp.router.classifier", every, dtype=FLOAT)
    b.add(f"{prefix}.mlp.router.{CORRECTION}", every, FLOAT)
    b.experts(f"{prefix}.mlp", count, hidden, config.integer("expert_ffn_hidden_size"), renormalizes=False)
