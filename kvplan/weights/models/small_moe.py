"""Decoders with routed experts of less spread kinds: OLMoE, Granite's mixtures, DeepSeek-MoE, Param-2, Step-3.

vLLM: model_executor/models/olmoe.py, granitemoe.py, granitemoeshared.py, deepseek_v2.py, param2moe.py, step3_text.py.
"""

from __future__ import annotations

from typing import Any

from kvplan.model import Model
from kvplan.weights.attention import HEAD, WHOLE, gated_mlp, heads_of, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, FIRST, TIED, Frame, decoder
from kvplan.weights.models.deepseek import deepseek_experts, is_sparse
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, router, shared_expert
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "OlmoeForCausalLM",
    "GraniteMoeForCausalLM",
    "GraniteMoeSharedForCausalLM",
    "GraniteMoeSWAForCausalLM",
    "DeepseekForCausalLM",
    "Param2MoEForCausalLM",
    "Step3TextForCausalLM",
)
_FRAME = Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    name = b.model.architecture
    if name == "OlmoeForCausalLM":
        decoder(b, _olmoe_layer, _FRAME, tie=False)
    elif name == "DeepseekForCausalLM":
        decoder(b, _deepseek_layer, Frame(embed_on=FIRST), tie=False)
    elif name == "Param2MoEForCausalLM":
        decoder(b, _param_layer, Frame(embed_on=TIED))
    elif name == "Step3TextForCausalLM":
        decoder(b, _step_layer, Frame(embed_on=TIED), tie=False)
    else:
        decoder(b, _granite_layer, _FRAME)


def _olmoe_layer(b: Builder, prefix: str, index: int) -> None:
    """Norms on all queries and all keys of the model."""
    config, attention, heads = b.config, f"{prefix}.self_attn", heads_of(b.config, divided=True)
    projections(b, attention, heads)
    qk_norms(b, attention, heads, WHOLE)
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config, 4096), rope_parameters(config))
    b.attention(f"{attention}.attn")
    count, hidden = config.integer("num_experts"), config.integer("hidden_size")
    router(b, f"{prefix}.mlp.gate", count)
    b.experts(f"{prefix}.mlp", count, hidden, config.integer("intermediate_size"), renormalizes=False)
    two_norms(b, prefix)


def _granite_layer(b: Builder, prefix: str, index: int) -> None:
    """A shared expert where shared_intermediate_size says so; sinks where attention_sinks does."""
    config, attention, heads = b.config, f"{prefix}.self_attn", heads_of(b.config, divided=True)
    projections(b, attention, heads)
    if config.get("layer_rope_theta") is not None:
        b.refuse("with layer_rope_theta")
    if config.truthy("attention_sinks", config.get("layer_types") is not None):
        b.add(f"{attention}.sinks", b.model.heads_per_rank(heads.query))
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{attention}.attn")
    count, hidden = config.integer("num_local_experts"), config.integer("hidden_size")
    router(b, f"{prefix}.block_sparse_moe.gate", count)
    width = config.integer("intermediate_size")
    b.experts(f"{prefix}.block_sparse_moe", count, hidden, width, renormalizes=True)
    shared = 0 if b.model.architecture == "GraniteMoeForCausalLM" else config.integer("shared_intermediate_size", 0)
    if shared:
        gated_mlp(b, f"{prefix}.shared_mlp", shared, names=("input_linear", "output_linear"))
    two_norms(b, prefix)


def _deepseek_layer(b: Builder, prefix: str, index: int) -> None:
    """Grouped queries with DeepSeek's experts: the first class of that family."""
    config, attention, heads = b.config, f"{prefix}.self_attn", heads_of(b.config, divided=True)
    if config.get("rswa_window") is not None:
        b.refuse("with rswa_window")
    projections(b, attention, heads)
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{attention}.attn")
    if is_sparse(config, index):
        deepseek_experts(b, f"{prefix}.mlp")
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def _param_layer(b: Builder, prefix: str, index: int) -> None:
    """The router is in float32; a shared expert as wide as several routed ones; KV heads are never repeated."""
    config, attention, heads = b.config, f"{prefix}.self_attn", heads_of(b.config)
    b.divide(heads.kv, "num_key_value_heads")
    projections(b, attention, heads, bias=config.truthy("use_qkv_bias"), out_bias=config.truthy("use_bias"))
    if config.truthy("use_qk_norm"):
        qk_norms(b, attention, heads, HEAD, ("q_layernorm", "k_layernorm"))
    if config.get("rope_scaling") is not None or config.get("partial_rotary_factor") is not None:
        b.refuse("with rope_scaling or partial_rotary_factor")
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), {})
    b.attention(f"{attention}.attn")
    hidden, size = config.integer("hidden_size"), config.optional_integer("moe_intermediate_size")
    if (
        config.get("num_experts") is None
        or size is None
        or index < config.integer("first_k_dense_replace", 1, minimum=0)
    ):
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    else:
        count, shared = config.integer("num_experts"), config.integer("num_shared_experts", 1, minimum=0)
        corrected = config.boolean("moe_router_enable_expert_bias", True)
        router(b, f"{prefix}.mlp.gate", count, dtype=FLOAT, correction=CORRECTION if corrected else None)
        if shared:
            width = config.optional_integer("moe_shared_expert_intermediate_size") or size * shared
            shared_expert(b, f"{prefix}.mlp.shared_experts", width)
        b.experts(f"{prefix}.mlp", count, hidden, size)
    two_norms(b, prefix)


def _step_layer(b: Builder, prefix: str, index: int) -> None:
    """`Step3TextDecoderLayer`: one KV head, whole on every rank; queries come out of a narrower vector."""
    config, attention = b.config, f"{prefix}.self_attn"
    hidden, heads, size = (config.integer(name) for name in ("hidden_size", "num_attention_heads", "head_dim"))
    low = config.optional_integer("share_q_dim") or size
    b.replicated(f"{attention}.qkv_proj", hidden, low + 2 * size)
    b.row(f"{attention}.o_proj", heads * size, hidden)
    b.norm(f"{attention}.inter_norm", low)
    b.column(f"{attention}.wq", low, heads * size)
    b.rotary(f"{attention}.rotary_emb", size, config.integer("max_position_embedding"), rope_parameters(config))
    b.attention(f"{attention}.attn")
    listed = config.get("moe_layers_enum")
    routed = range(1, config.integer("num_hidden_layers")) if listed is None else _numbers(b, listed)
    if index in routed:
        count = config.integer("moe_num_experts")
        b.experts(f"{prefix}.moe", count, hidden, config.integer("moe_intermediate_size"))
        router(b, f"{prefix}.moe.gate", count)
        shared_expert(b, f"{prefix}.share_expert", config.integer("share_expert_dim"))
    else:
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)


def _numbers(b: Builder, value: Any) -> list[int]:
    """Layers from text with commas, as the published config has them."""
    if not isinstance(value, str) or not all(part.strip().isdecimal() for part in value.strip().split(",")):
        b.refuse(f"with moe_layers_enum {value!r}")
    return [int(part) for part in value.strip().split(",")]
