"""DeepSeek-V4's prediction modules and DSpark stages (vLLM: models/deepseek_v4/nvidia/mtp.py, dspark.py)."""

from __future__ import annotations

from kvplan.drafters.common import num_modules, target_config
from kvplan.weights.builder import VOCABULARY_PADDING, Builder
from kvplan.weights.models.deepseek_v4 import head_streams, layer
from kvplan.weights.own import Own

ARCHITECTURES = ("DeepSeekV4MTPModel", "DSparkDraftModel")
OWN_SCHEME = False
_STAGES = 3


def weights(b: Builder, own: Own) -> None:
    """Modules that keep their windows only and compress nothing."""
    config = b.config
    if b.model.architecture == "DSparkDraftModel":
        _dspark(b, own)
        return
    size, first = config.integer("hidden_size"), target_config(b.model).integer("num_hidden_layers")
    for i in range(first, first + num_modules(config)):
        prefix = f"model.layers.{i}"
        for name in ("enorm", "hnorm", "shared_head.norm"):
            b.norm(f"{prefix}.{name}", size)
        for name in ("e_proj", "h_proj"):
            b.replicated(f"{prefix}.{name}", size, size)
        head_streams(b, prefix)
        layer(b, prefix, i, 1)
    own.add(b, config.integer("vocab_size"))


def _dspark(b: Builder, own: Own) -> None:
    """`DSparkDeepseekV4Model`: stages behind a projection of the target's states, and heads over the vocabulary."""
    config = b.config
    size, vocabulary, rank = (config.integer(key) for key in ("hidden_size", "vocab_size", "dspark_markov_rank"))
    count = config.optional_integer("n_mtp_layers", minimum=0, maximum=1024) or _STAGES
    b.replicated("model.main_proj", size * len(config.integers("dspark_target_layer_ids")), size)
    b.norm("model.main_norm", size)
    first = config.integer("num_hidden_layers")
    for i in range(first, first + count):
        layer(b, f"model.layers.{i}", i, 1)
    b.replicated("model.context_wkv_proj", size, (config.integer("head_dim"),) * count)
    b.norm("model.norm", size)
    head_streams(b, "model")
    b.add("model.markov_head.markov_w1.weight", vocabulary * rank)
    b.add("model.markov_head.markov_w2.weight", -(-vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING * rank)
    if config.truthy("enable_confidence_head", True):
        b.add("model.confidence_head.proj.weight", size + rank, "float32")
    own.add(b, vocabulary)
