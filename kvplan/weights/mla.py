"""Multi-head latent attention: queries and latents are projected down on every rank and up to the rank's heads.

vLLM: model_executor/models/deepseek_v2.py (DeepseekV2MLAAttention), models/deepseek_v32/attention.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.weights.attention import positions, rope_parameters
from kvplan.weights.builder import Builder

_FLOAT = "float32"


def latent_attention(b: Builder, prefix: str, *, scales: str = ".mla_attn.mla_attn", rotary: bool = True) -> None:
    """`DeepseekV2MLAAttention`; ``scales`` is where the layer keeps the scales of a quantised cache."""
    config = b.config
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    latent, rope = config.integer("kv_lora_rank"), config.integer("qk_rope_head_dim", minimum=0)
    query = config.integer("qk_nope_head_dim") + rope
    low = config.optional_integer("q_lora_rank")
    if low is not None:
        b.replicated(f"{prefix}.fused_qkv_a_proj", hidden, (low, latent + rope))
        b.norm(f"{prefix}.q_a_layernorm", low)
        b.column(f"{prefix}.q_b_proj", low, heads * query)
    else:
        b.replicated(f"{prefix}.kv_a_proj_with_mqa", hidden, latent + rope)
        b.column(f"{prefix}.q_proj", hidden, heads * query)
    value = config.integer("v_head_dim")
    b.norm(f"{prefix}.kv_a_layernorm", latent)
    b.column(f"{prefix}.kv_b_proj", latent, heads * (config.integer("qk_nope_head_dim") + value))
    b.row(f"{prefix}.o_proj", heads * value, hidden)
    if rotary:
        length = positions(config)
        b.rotary(f"{prefix}.rotary_emb", rope, length, deepseek_rotary(b), is_neox_style=False)
    b.attention(f"{prefix}{scales}", mla=True)


def deepseek_rotary(b: Builder) -> Mapping[str, Any]:
    """The positions' parameters under the name of DeepSeek's own scaling."""
    parameters = rope_parameters(b.config)
    if parameters.get("rope_type", "default") == "default":
        return parameters
    plain = parameters.get("attention_factor") == 1.0
    return {**parameters, "rope_type": "deepseek_llama_scaling" if plain else "deepseek_yarn"}


def indexer(b: Builder, prefix: str) -> None:
    """`Indexer`: which tokens sparse attention reads; the same on every rank."""
    config = b.config
    heads, size = config.integer("index_n_heads"), config.integer("index_head_dim")
    b.replicated(f"{prefix}.wq_b", config.integer("q_lora_rank"), heads * size)
    b.replicated(f"{prefix}.wk_weights_proj", config.integer("hidden_size"), (size, heads), quantized=False)
    b.norm(f"{prefix}.k_norm", size, bias=True, dtype=_FLOAT)


def indexer_rotary(b: Builder, prefix: str) -> None:
    """The indexer's positions, which are the layer's own where indexer_rope_interleave says so."""
    config = b.config
    neox = not config.truthy("indexer_rope_interleave")
    size, length = config.integer("qk_rope_head_dim"), positions(config)
    b.rotary(f"{prefix}.indexer_rope_emb", size, length, deepseek_rotary(b), is_neox_style=neox)
