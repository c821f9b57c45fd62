"""DeepSeek-V2 to V3.2, Kimi-K2, GLM-5 and GLM-4.7-Flash: latent attention with routed experts.

vLLM: model_executor/models/deepseek_v2.py, glm4_moe_lite.py, kimi_k25.py, models/deepseek_v32.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.sparse_mla import leads
from kvplan.hf.config import Config
from kvplan.model import Model
from kvplan.weights.attention import gated_mlp
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import FIRST, Frame, decoder
from kvplan.weights.mla import indexer, indexer_rotary, latent_attention
from kvplan.weights.models.llama import two_norms
from kvplan.weights.moe import CORRECTION, FLOAT, renormalizes, router, shared_expert
from kvplan.weights.names import GATE_UP, Packed, Renames
from kvplan.weights.vision.kimi import kimi_vision

ARCHITECTURES = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "GlmMoeDsaForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiK25ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
)
SPARSE = ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")
_KIMI = "KimiK25ForConditionalGeneration"
_FRAME = Frame(embed_on=FIRST)
FUSED: Packed = {"fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa")}


def packed(model: Model) -> Packed:
    return {} if model.architecture == _KIMI else {**GATE_UP, **FUSED}


def renames(model: Model) -> Renames | None:
    if model.architecture != _KIMI:
        return None
    return Renames(
        prefixes=(
            ("language_model.layers.", "language_model.model.layers."),
            ("mm_projector.proj.0", "mm_projector.linear_1"),
            ("mm_projector.proj.2", "mm_projector.linear_2"),
        )
    )


def weights(b: Builder) -> None:
    outer = ""
    if b.model.architecture == "GlmMoeDsaForCausalLM" and b.model.engine.decode_context_parallel_size > 1:
        b.refuse("with --decode-context-parallel-size, whose ranks repeat the queries' projection,")
    if b.model.architecture == "MistralLarge3ForCausalLM":
        b.only_unquantized()
    if b.model.architecture == _KIMI:
        outer = "language_model."
        kimi_vision(b)
    decoder(b, _layer, _FRAME._replace(outer=outer), tie=False)


def _layer(b: Builder, prefix: str, index: int) -> None:
    layer(b, prefix, index, sparse=b.model.architecture in SPARSE)


def layer(b: Builder, prefix: str, index: int, *, sparse: bool) -> None:
    """A decoder layer: the first first_k_dense_replace ones are dense.

    Of the classes with sparse attention they are whole on every rank where tokens are split over the ranks.
    """
    config = b.config
    check_latent(b)
    if sparse:
        sparse_attention(b, f"{prefix}.self_attn", has_indexer=leads(config, index))
    else:
        latent_attention(b, f"{prefix}.self_attn")
    if is_sparse(config, index):
        deepseek_experts(b, f"{prefix}.mlp")
    else:
        whole = sparse and b.sequence_parallel and b.model.engine.pipeline_parallel_size == 1
        gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), replicated=whole)
    two_norms(b, prefix)


def check_latent(b: Builder) -> None:
    """Refused where the model would run without latent attention."""
    config, env = b.config, b.model.engine.args.env
    if env.get("VLLM_MLA_DISABLE") == "1" or not config.get("qk_rope_head_dim"):
        raise Refused(
            f"{config.where}: the weights of {b.model.architecture} without latent attention are not known to kvplan; "
            "give --weights-bytes."
        )


def is_sparse(config: Config, index: int) -> bool:
    """Whether a layer routes to experts."""
    if config.get("n_routed_experts") is None:
        return False
    first = config.integer("first_k_dense_replace", 0, minimum=0)
    return index >= first and index % config.integer("moe_layer_freq", 1) == 0


def sparse_attention(b: Builder, prefix: str, *, has_indexer: bool) -> None:
    """`DeepseekV32Attention`: latent attention whose leading layers have an indexer."""
    latent_attention(b, prefix, scales="")
    if has_indexer:
        indexer(b, f"{prefix}.indexer")
    indexer_rotary(b, prefix)


def deepseek_experts(b: Builder, prefix: str) -> None:
    """`DeepseekV2MoE`; GLM-4.7-Flash keeps its router in float32."""
    config = b.config
    hidden, size = config.integer("hidden_size"), config.integer("moe_intermediate_size")
    count = config.integer("n_routed_experts")
    lite = "Glm4MoeLite" in b.model.architecture
    correction = CORRECTION if lite or config.get("topk_method") == "noaux_tc" else None
    router(b, f"{prefix}.gate", count, dtype=FLOAT if lite else None, correction=correction)
    shared = config.optional_integer("n_shared_experts", minimum=0)
    if shared and lite:  # GLM's class splits it however the tokens are split
        gated_mlp(b, f"{prefix}.shared_experts", size * shared)
    elif shared:
        shared_expert(b, f"{prefix}.shared_experts", size * shared, replicates=True)
    sigmoid = correction is not None and config.get("scoring_func") == "sigmoid"
    b.experts(prefix, count, hidden, size, renormalizes=renormalizes(config) if sigmoid else None)
