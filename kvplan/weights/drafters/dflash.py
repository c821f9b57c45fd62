"""DFlash, DFlash2 and DSpark on Qwen3's layers: a few layers that draft a block from the target's states.

vLLM: model_executor/models/qwen3_dflash.py, qwen3_dflash2.py, qwen3_dspark.py.
"""

from __future__ import annotations

from kvplan.drafters.dflash import has_sinks
from kvplan.drafters.dflash import section as dflash_section
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, projections, qk_norms, rope_parameters
from kvplan.weights.builder import VOCABULARY_PADDING, Builder
from kvplan.weights.drafters.eagle import eagle_config
from kvplan.weights.models.llama import two_norms
from kvplan.weights.own import Own, draft_vocabulary

ARCHITECTURES = (
    "DFlashDraftModel",
    "DFlash2DraftModel",
    "MuseGlimmerAssistantModel",
    "DFlashMuseGlimmerAssistantModel",
    "Qwen3DSparkModel",
)
OWN_SCHEME = True


def weights(b: Builder, own: Own) -> None:
    config = b.config
    size = config.integer("hidden_size")
    b.add("model.mask_embedding", size, None if b.model.target is None else b.model.target.dtype)
    for i in range(config.integer("num_hidden_layers")):
        _layer(b, f"model.layers.{b.model.start_layer + i}")
    if _uses_states(b):
        target = config.optional_integer("target_hidden_size") or size
        b.replicated("model.fc", target * _states(b), size)
    b.norm("model.hidden_norm", size)
    b.norm("model.norm", size)
    dspark = b.model.architecture == "Qwen3DSparkModel"
    if b.model.architecture == "DFlash2DraftModel":
        _selector(b)
    elif dspark:
        _markov_head(b)
    kept = own._replace(head=own.head or (not dspark and config.truthy("has_own_lm_head")))
    kept.add(b, draft_vocabulary(b), maps_larger=not dspark)


def _uses_states(b: Builder) -> bool:
    merged = {**eagle_config(b.config), **dflash_section(b.config).data}
    return bool(merged.get("use_aux_hidden_state", b.config.get("use_aux_hidden_state", True)))


def _layer(b: Builder, prefix: str) -> None:
    config, heads, attention = b.config, heads_of(b.config), f"{prefix}.self_attn"
    projections(b, attention, heads, bias=config.truthy("attention_bias"))
    b.rotary(f"{attention}.rotary_emb", heads.size, config.integer("max_position_embeddings"), rope_parameters(config))
    if has_sinks(config):
        b.add(f"{attention}.attention_sink_bias", b.model.heads_per_rank(heads.query))
    b.attention(f"{attention}.attn")
    qk_norms(b, attention, heads, HEAD)
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"))
    two_norms(b, prefix)
    if b.model.architecture == "DFlash2DraftModel":
        _convolutions(b, prefix)


def _states(b: Builder) -> int:
    """How many layers' states the target hands over (`get_eagle3_aux_layers_from_config`)."""
    config = b.config
    dflash, eagle = dflash_section(config).data, eagle_config(config)
    found = (
        config.get("eagle_aux_hidden_state_layer_ids"),
        dflash.get("target_layer_ids"),
        config.get("dspark_target_layer_ids"),
        config.get("target_layer_ids"),
        dflash.get("layer_ids"),
        eagle.get("layer_ids"),
    )
    ids = next((x for x in found if x), None)
    return len(ids) if isinstance(ids, list) else config.integer("num_hidden_layers")


def _convolutions(b: Builder, prefix: str) -> None:
    """`DFlashGroupedConv` around attention and around the feed-forward layer."""
    dflash, size = dflash_section(b.config), b.config.integer("hidden_size")
    taps, group = dflash.integer("conv_kernel_size"), dflash.integer("conv_group_size")
    if size % group:
        raise dflash.error("conv_group_size", f"must divide hidden_size ({size})")
    for name in ("attention_conv", "mlp_conv"):
        b.add(f"{prefix}.{name}.base_kernel", 2 * taps * size)
        b.replicated(f"{prefix}.{name}.kernel_projection", size, 2 * taps * (size // group))


def _selector(b: Builder) -> None:
    """`CandidateSelector`: low-rank tables over the whole vocabulary on every rank."""
    config = b.config
    rank, vocabulary = dflash_section(config).integer("selector_rank"), config.integer("vocab_size")
    for name in ("predecessor_codebook", "successor_codebook"):
        b.add(f"model.candidate_selector.{name}", vocabulary * rank)
    projection = "model.candidate_selector.hidden_projection"
    b.replicated(projection, config.integer("hidden_size"), rank, quantized=False)


def _markov_head(b: Builder) -> None:
    """`DSparkMarkovHead` and `DSparkConfidenceHead`, whole on every rank."""
    config = b.config
    rank, size = config.integer("markov_rank"), config.integer("hidden_size")
    b.add("model.markov_head.markov_w1.weight", config.integer("vocab_size") * rank)
    padded = -(-draft_vocabulary(b) // VOCABULARY_PADDING) * VOCABULARY_PADDING
    b.add("model.markov_head.markov_w2.weight", padded * rank)
    if config.truthy("enable_confidence_head"):
        width = size + rank if config.truthy("confidence_head_with_markov") else size
        b.add("model.confidence_head.proj.weight", width, "float32")
        b.add("model.confidence_head.proj.bias", 1, "float32")
