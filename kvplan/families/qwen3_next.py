"""Qwen3-Next and Qwen3.5/3.6, dense and MoE: gated delta net layers with a full attention layer every few.

vLLM: model_executor/models/qwen3_next.py and qwen3_5.py; the state is model_executor/layers/mamba/gdn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.families.common import (
    attention,
    check_rotary,
    check_tower,
    head_dim,
    num_layers,
    require_no_dual_chunks,
)
from kvplan.families.qwen_vl import QWEN3_TOWER
from kvplan.families.registry import Traits
from kvplan.families.states import gated_delta_net
from kvplan.layers import AttentionLayer, Layer, StateLayer, Why
from kvplan.model import Model

ARCHITECTURES = (
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
)

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True)

_FLASHINFER_CHECKPOINT_ALIGNMENT = 64
_LINEAR = ("layer_types: linear_attention", "model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py")
_FULL = ("layer_types: full_attention", "model_executor/models/qwen3_next.py, Qwen3NextAttention")


def traits(architecture: str) -> Traits:
    return TRAITS._replace(is_multimodal=architecture.endswith("ForConditionalGeneration"))


def prefill_backend(model: Model) -> str:
    """The kernel of gated delta net prefill on CUDA 13 (qwen_gdn_linear_attn.py, _resolve_gdn_prefill_backend)."""
    requested = str(model.engine.args.additional_flags.get("gdn_prefill_backend") or "auto").strip().lower()
    major, minor = model.engine.gpu.capability
    small_keys = model.config.get("linear_key_head_dim") == 128
    flashinfer = (major, minor) == (9, 0) or (major in (10, 12) and small_keys)
    if requested in ("auto", "flashinfer") and flashinfer:
        return "flashinfer"
    return "cutedsl" if requested == "cutedsl" and major == 10 and small_keys else "triton"


def linear_attention(model: Model) -> StateLayer:
    """A gated delta net layer. Its prefill exports checkpoints where FlashInfer's kernel runs it."""
    config = model.config
    gate = config.get("output_gate_type", "silu")
    if gate not in ("silu", "swish", "sigmoid"):
        raise config.error("output_gate_type", f"must be silu, swish or sigmoid, got {gate!r}")
    shapes, dtypes = gated_delta_net(
        model,
        num_k_heads=config.integer("linear_num_key_heads"),
        num_v_heads=config.integer("linear_num_value_heads"),
        head_k_dim=config.integer("linear_key_head_dim"),
        head_v_dim=config.integer("linear_value_head_dim"),
        conv_kernel=config.integer("linear_conv_kernel_dim"),
    )
    exports = model.engine.mamba_cache_mode == "align" and prefill_backend(model) == "flashinfer"
    return StateLayer(
        name="",
        mamba_type="gdn_attention",
        shapes=shapes,
        dtypes=dtypes,
        why=_LINEAR,
        backend="GDN_ATTN",
        shared_checkpoint_alignment=_FLASHINFER_CHECKPOINT_ALIGNMENT if exports else None,
    )


def full_attention(model: Model, why: Why = _FULL, **fields: Any) -> AttentionLayer:
    """A layer of `Qwen3NextAttention`; ``fields`` are AttentionLayer's."""
    config = model.config
    require_no_dual_chunks(config)
    if config.get("attn_output_gate", True) is None:
        raise config.error("attn_output_gate", "is null, and vLLM counts with it; write true or false")
    return attention(
        model,
        "",
        why,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=head_dim(config),
        **fields,
    )


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    prefix = "model"
    if model.architecture.endswith("ForConditionalGeneration"):
        prefix = "language_model.model"
        check_tower(model, QWEN3_TOWER)
        check_rotary(config, head_dim(config))  # text-only classes drop the axes
    state, full = linear_attention(model), full_attention(model)
    kinds = config.texts("layer_types", length=num_layers(config), allowed=("linear_attention", "full_attention"))
    for i, kind in enumerate(kinds):
        if kind == "linear_attention":
            yield state._replace(name=f"{prefix}.layers.{i}.linear_attn")
        else:
            yield full._replace(name=f"{prefix}.layers.{i}.self_attn.attn")
