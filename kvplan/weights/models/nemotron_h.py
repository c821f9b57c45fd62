"""Nemotron-H: layers of one kind each, Mamba 2, attention, feed-forward or experts.

vLLM: model_executor/models/nemotron_h.py. The letters of hybrid_override_pattern, or layers_block_type, name the kinds.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.model import Model
from kvplan.weights.attention import heads_of, projections
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.moe import CORRECTION, FLOAT, renormalizes, router
from kvplan.weights.names import QKV, Packed, Renames
from kvplan.weights.states import mamba2

ARCHITECTURES = ("NemotronHForCausalLM",)
_SPECIALIZED = (9, 10)
"""Major compute capabilities whose router kernels take the model's dtype; elsewhere the router is kept in float32."""


def packed(model: Model) -> Packed:
    return QKV


def renames(model: Model) -> Renames:
    return Renames(substrings=(("A_log", "A"), ("embeddings", "embed_tokens")), prefixes=(("backbone", "model"),))


def weights(b: Builder) -> None:
    kinds = b.config.texts("layers_block_type")
    frame = Frame(norm="norm_f", embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)

    def layer(b: Builder, prefix: str, index: int) -> None:
        mixer(b, f"{prefix}.mixer", kinds[index], kinds[: index + 1].count("mlp") - 1)
        b.norm(f"{prefix}.norm", b.config.integer("hidden_size"))

    decoder(b, layer, frame, count=len(kinds), tie=False)


def mixer(b: Builder, prefix: str, kind: str, dense_index: int = 0) -> None:
    """One layer's own part; ``dense_index`` counts the dense layers before it."""
    config = b.config
    if kind == "linear_attention":
        _state(b, prefix)
    elif kind == "full_attention":
        projections(b, prefix, heads_of(config))
        b.attention(f"{prefix}.attn")
    elif kind == "moe":
        _experts(b, prefix)
    else:
        _mlp(b, prefix, _width(b, dense_index), bias=config.truthy("mlp_bias"))


def _state(b: Builder, prefix: str) -> None:
    config = b.config
    heads = config.integer("mamba_num_heads")
    mamba2(
        b,
        prefix,
        inner=heads * config.integer("mamba_head_dim"),
        state=config.integer("ssm_state_size"),
        kernel=config.integer("conv_kernel"),
        groups=config.integer("n_groups"),
        heads=heads,
        conv_bias=config.truthy("use_conv_bias"),
        bias=config.truthy("use_bias"),
    )


def _width(b: Builder, dense_index: int) -> int:
    """intermediate_size, which may be a list with one entry or one per dense layer."""
    config = b.config
    if not isinstance(config.get("intermediate_size"), list):
        return config.integer("intermediate_size")
    sizes = config.integers("intermediate_size", minimum=1)
    if len(sizes) != 1 and dense_index >= len(sizes):
        raise Refused(f"{config.where}: intermediate_size has {len(sizes)} entries, fewer than the dense layers.")
    return sizes[0] if len(sizes) == 1 else sizes[dense_index]


def _mlp(b: Builder, prefix: str, size: int, *, bias: bool = False) -> None:
    """A feed-forward layer without a gate."""
    hidden = b.config.integer("hidden_size")
    b.column(f"{prefix}.up_proj", hidden, size, bias=bias)
    b.row(f"{prefix}.down_proj", size, hidden, bias=bias)


def _experts(b: Builder, prefix: str) -> None:
    """Experts without gates, which may work in a smaller latent space."""
    config = b.config
    hidden, count = config.integer("hidden_size"), config.integer("n_routed_experts")
    special = b.model.engine.gpu.capability[0] in _SPECIALIZED and not b.batch_invariant
    router(b, f"{prefix}.gate", count, dtype=None if special else FLOAT, correction=CORRECTION)
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared:
        _mlp(b, f"{prefix}.shared_experts", config.integer("moe_shared_expert_intermediate_size") * shared)
    latent = config.optional_integer("moe_latent_size")
    if latent:
        bias = config.truthy("mlp_bias")
        b.replicated(f"{prefix}.fc1_latent_proj", hidden, latent, bias=bias)
        b.replicated(f"{prefix}.fc2_latent_proj", latent, hidden, bias=bias)
    size = config.integer("moe_intermediate_size")
    normalized = renormalizes(config) or None
    b.experts(prefix, count, latent or hidden, size, gated=False, activation="relu2_no_mul", renormalizes=normalized)
