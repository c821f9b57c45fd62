"""Rules of config classes that compute little: a default rotation, a pattern of layers, a few sizes.

Each function is one rule or makes one (transformers/models/*/configuration_*.py, ``__post_init__``, or vLLM's own class
under transformers_utils/configs/).
"""

from __future__ import annotations

from typing import Any

from kvplan.hf import layer_types as lt
from kvplan.hf import sizes
from kvplan.hf.draft import Draft, Rule
from kvplan.hf.layer_types import FULL, SLIDING


def llama3_rope(theta: float, factor: float) -> Rule:
    """A class whose rotary positions are stretched as Llama 3's by default."""
    usual = {"original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

    def rule(c: Draft) -> None:
        if c.lacks("rope_parameters"):
            c.put("rope_parameters", {"rope_type": "llama3", "rope_theta": theta, "factor": factor, **usual})

    return rule


def first_full(period: int) -> Rule:
    """The first layer of each period is full, the others slide."""
    return lt.derive("layer_types", lambda c, i: SLIDING if i % period else FULL)


def no_zero_window(c: Draft) -> None:
    c.put("sliding_window", c.optional_integer("sliding_window", minimum=0) or None)


def cohere2_moe(c: Draft) -> None:
    """The first dense layers have a window pattern of their own."""
    dense = min(c.taken("first_k_dense_replace", 0, 0), c.layers())
    c.drop("first_k_dense_replace")
    if c.lacks("layer_types"):
        first, rest = c.integer("prefix_dense_sliding_window_pattern"), c.integer("sliding_window_pattern")
        kinds = [SLIDING if (i + 1) % first else FULL for i in range(dense)]
        c.put("layer_types", kinds + [SLIDING if (i + 1) % rest else FULL for i in range(c.layers() - dense)])
    if c.lacks("mlp_layer_types"):
        c.put("mlp_layer_types", ["dense"] * dense + ["sparse"] * (c.layers() - dense))


def axk1(c: Draft) -> None:
    sizes.kv_heads(c)
    sizes.mla_head_dim(c)
    if not c.lacks("mlp_layer_types"):
        return
    first, period = c.taken("first_k_dense_replace", 1, 0), c.taken("moe_layer_freq", 1)
    for key in ("first_k_dense_replace", "moe_layer_freq"):
        c.drop(key)
    c.put("mlp_layer_types", ["dense" if i < first or i % period else "sparse" for i in range(c.layers())])


def mellum(c: Draft) -> None:
    """Layers of the prediction module, where there is one, slide and have experts."""
    if c.lacks("rope_parameters"):
        parts = {FULL: 500000.0, SLIDING: 10000.0}
        c.put("rope_parameters", {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in parts.items()})
    modules = c.integer("num_mtp_layers", 0, minimum=0, maximum=1) if not c.lacks("num_mtp_layers") else 0
    for key, kind in (("mtp_layer_types", SLIDING), ("mtp_mlp_layer_types", "sparse")):
        if modules and c.lacks(key):
            c.put(key, [kind] * modules)


def minicpm3(c: Draft) -> None:
    width, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    sizes.mla_head_dim(c)
    for key, value in (("v_head_dim", width // heads), ("dim_model_base", width), ("scale_depth", c.layers() ** 0.5)):
        if c.lacks(key):
            c.put(key, value)
    sizes.kv_heads(c)


def hyperclovax(c: Draft) -> None:
    sizes.head_dim(c)
    sizes.kv_heads(c)
    if c.lacks("attention_multiplier"):
        c.put("attention_multiplier", c.integer("head_dim") ** -0.5)


def gpt_bigcode(c: Draft) -> None:
    """One KV head for all query heads, or one for each."""
    c.put("num_key_value_heads", 1 if c.truthy("multi_query") else c.integer("n_head"))


def chatglm(c: Draft) -> None:
    """vLLM's ChatGLMConfig: two of its arguments become fields of other names."""
    c.put("vocab_size", c.integer("padded_vocab_size"))
    c.put("max_position_embeddings", c.integer("seq_length"))


def step3_text(c: Draft) -> None:
    """vLLM's Step3TextConfig: rope_scaling wins over rope_parameters."""
    parameters: Any = c.drop("rope_scaling") or c.get("rope_parameters") or {"rope_type": "default"}
    theta = c.drop("rope_theta")
    if isinstance(parameters, dict):
        c.put("rope_parameters", {"rope_theta": 500000.0 if theta is None else theta, **parameters})
