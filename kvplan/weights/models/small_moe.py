"""Decoders with small routed experts: OLMoE and Granite's mixtures of experts.

vLLM: model_executor/models/olmoe.py, granitemoe.py, granitemoeshared.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import WHOLE, gated_mlp, heads_of, positions, projections, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import router
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "OlmoeForCausalLM",
    "GraniteMoeForCausalLM",
    "GraniteMoeSharedForCausalLM",
    "GraniteMoeSWAForCausalLM",
)
_FRAME = Frame(embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    if b.model.architecture == "OlmoeForCausalLM":
        decoder(b, _olmoe_layer, _FRAME, tie=False)
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
