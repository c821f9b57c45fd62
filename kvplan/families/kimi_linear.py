"""Kimi-Linear and Kimi-K3: Kimi delta attention states with a multi-head latent attention layer every few.

vLLM: models/kimi_k3/nvidia/{model,kda,mla}.py, model_executor/layers/mamba/gdn/kimi_gdn_linear_attn.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.errors import Refused
from kvplan.families.common import nested, num_layers
from kvplan.families.registry import Traits
from kvplan.families.states import kda, kda_prefill_alignment
from kvplan.hf import Config
from kvplan.layers import Layer, MLALayer, StateLayer, Why
from kvplan.model import Model

ARCHITECTURES = ("KimiLinearForCausalLM", "KimiK3ForConditionalGeneration")

_SMALLEST_GATE = -5.0
_KDA = ("linear_attn_config.kda_layers", "model_executor/layers/mamba/gdn/kimi_gdn_linear_attn.py")
_KDA_FULL_RANK = ("linear_attn_config.use_full_rank_gate", "models/kimi_k3/nvidia/kda.py, KimiK3DeltaAttention")
_MLA = ("linear_attn_config.kda_layers, kv_lora_rank", "models/kimi_k3/nvidia/mla.py, MultiHeadLatentAttention")


def traits(architecture: str) -> Traits:
    return Traits(
        is_hybrid=True,
        supports_mamba_prefix_caching=True,
        is_multimodal=architecture == "KimiK3ForConditionalGeneration",
    )


def linear_section(config: Config) -> Config:
    """``linear_attn_config``. KvplanError where it is missing: the model class has no states without it."""
    section = config.section("linear_attn_config")
    if section is None:
        raise config.error("linear_attn_config", "is missing, and vLLM cannot size the states without it")
    return section


def kda_layers(section: Config) -> frozenset[int]:
    """Indices of the decoder layers that keep a state; the config counts from 1."""
    section.sequence("full_attn_layers")
    return frozenset(i - 1 for i in section.integers("kda_layers"))


def _check_gate(section: Config) -> bool:
    """Whether the gate is bounded. KvplanError for a bound that vLLM does not take."""
    if section.get("gate_lower_bound") is None:
        return False
    bound = section.number("gate_lower_bound")
    if not _SMALLEST_GATE <= bound < 0:
        raise section.error("gate_lower_bound", f"must be from {_SMALLEST_GATE:g} to below 0, got {bound:g}")
    return True


def state(model: Model) -> StateLayer:
    """A layer of Kimi delta attention. Kimi-Linear's own layer keeps its recurrent state in float32 whatever is set."""
    section = linear_section(model.config)
    head_dim = section.integer("head_dim")
    shapes, dtypes = kda(
        model,
        num_heads=section.integer("num_heads"),
        head_dim=head_dim,
        conv_kernel=section.integer("short_conv_kernel_size"),
    )
    bounded = _check_gate(section)
    if section.truthy("use_full_rank_gate"):
        return StateLayer(
            name="",
            mamba_type="gdn_attention",
            shapes=shapes,
            dtypes=dtypes,
            why=_KDA_FULL_RANK,
            backend="KIMI_K3_KDA",
            prefill_checkpoint_alignment=kda_prefill_alignment(
                model, head_dim, bounded_gate=bounded, takes_flashinfer=True
            ),
        )
    requested = model.engine.args.additional_flags.get("kda_prefill_backend") or "auto"
    if requested not in ("auto", "triton"):
        raise Refused(f"--kda-prefill-backend {requested!r}: this model's layers prefill with triton only; use auto.")
    return StateLayer(
        name="",
        mamba_type="gdn_attention",
        shapes=shapes,
        dtypes=(dtypes[0], "float32"),
        why=_KDA,
        backend="GDN_ATTN",
        reported_dtypes=dtypes,
    )


def latent_attention(model: Model, why: Why = _MLA, *, non_causal: bool = False) -> MLALayer:
    """A layer of `MultiHeadLatentAttention`; it has no prefill context parallelism."""
    config = model.config
    for key in ("qk_nope_head_dim", "v_head_dim"):
        config.integer(key)
    if model.engine.prefill_context_parallel_size > 1:
        raise Refused(
            f"--prefill-context-parallel-size {model.engine.prefill_context_parallel_size} is not supported by "
            f"{model.architecture}'s attention; leave it out."
        )
    return MLALayer(
        name="",
        num_heads=model.heads_per_rank(config.integer("num_attention_heads")),
        head_size=config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim", minimum=0),
        why=why,
        non_causal_multi_token_decode=non_causal,
        cache_dtype=model.cache_dtype,
    )


def _check_experts(config: Config, indices: range) -> None:
    """KvplanError where a layer has experts without their sizes (`KimiMoE`)."""
    if config.get("num_experts") is None:
        return
    first = config.integer("first_k_dense_replace", 0, minimum=0)
    every = config.integer("moe_layer_freq") if "moe_layer_freq" in config else 1
    if any(i >= first and i % every == 0 for i in indices):
        for key in ("moe_intermediate_size", "num_experts_per_token"):
            config.integer(key)


def decoder_layers(model: Model, indices: range, why: Why = _MLA) -> Iterator[Layer]:
    """Decoder layers of these indices: a state where kda_layers says so, else attention."""
    config = model.config
    _check_experts(config, indices)
    recurrent = kda_layers(linear_section(config))
    has_attention = not recurrent.issuperset(indices)
    if has_attention and not config.truthy("mla_use_nope"):
        raise config.error("mla_use_nope", "must be true: vLLM's attention for this model has no rotary positions")
    attends = latent_attention(model, why) if has_attention else None
    keeps = state(model) if recurrent.intersection(indices) else None
    for i in indices:
        layer = keeps if i in recurrent else attends
        if layer is not None:
            yield layer._replace(name=f"model.layers.{i}.self_attn")


def text_layers(model: Model) -> Iterator[Layer]:
    indices = range(num_layers(model.config))
    section = linear_section(model.config)
    if not kda_layers(section).intersection(indices):
        raise section.error("kda_layers", "names no decoder layer, which kvplan needs to plan this class")
    return decoder_layers(model, indices)


def layers(model: Model) -> list[Layer]:
    if model.architecture == "KimiK3ForConditionalGeneration":
        return nested(model, "KimiLinearForCausalLM")
    return list(text_layers(model))
