"""Heads, widths and windows as several config classes compute them from their fields.

Each function is one rule (transformers/models/*/configuration_*.py, ``__post_init__``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.hf.config import MAXIMUM_LAYERS
from kvplan.hf.draft import Draft, Rule


def kv_heads(c: Draft) -> None:
    """Without a count of its own, every query head has a KV head."""
    if c.lacks("num_key_value_heads"):
        c.put("num_key_value_heads", c.integer("num_attention_heads"))


def head_dim(c: Draft) -> None:
    if c.lacks("head_dim"):
        c.put("head_dim", c.integer("hidden_size") // c.integer("num_attention_heads"))


def falsy_head_dim(c: Draft) -> None:
    if not c.get("head_dim"):
        c.put("head_dim", c.integer("hidden_size") // c.integer("num_attention_heads"))


def divided_head_dim(c: Draft) -> None:
    """Cohere 2 and Falcon never read head_dim from the file."""
    c.put("head_dim", c.integer("hidden_size") // c.integer("num_attention_heads"))


def window_needs_flag(c: Draft) -> None:
    """The window counts only where use_sliding_window is set."""
    if not c.truthy("use_sliding_window"):
        c.put("sliding_window", None)


def window_needs_flag_or_zero(c: Draft) -> None:
    if not c.truthy("use_sliding_window"):
        c.put("sliding_window", 0)


def no_window(c: Draft) -> None:
    c.put("sliding_window", None)


def bidirectional_window(c: Draft) -> None:
    """Gemma 3: a window that looks both ways reaches half as far to each side."""
    if c.get("use_bidirectional_attention"):
        _halve(c)


def bidirectional_all_window(c: Draft) -> None:
    if c.get("use_bidirectional_attention") == "all":
        _halve(c)


def _halve(c: Draft) -> None:
    c.put("sliding_window", c.integer("sliding_window") // 2 + 1)


def qk_head_dim(c: Draft) -> None:
    nope, rotary = c.integer("qk_nope_head_dim", minimum=0), c.integer("qk_rope_head_dim", minimum=0)
    c.put("qk_head_dim", nope + rotary)


def mla_head_dim(c: Draft) -> None:
    """MLA classes give the rotary part as head_dim."""
    qk_head_dim(c)
    c.put("head_dim", c.get("qk_rope_head_dim"))


def head_dim_taken_for_rotary(c: Draft) -> None:
    """GLM-4.7-Flash: the class takes a head_dim in the file for qk_rope_head_dim; vLLM repairs only the plain case.

    vLLM: transformers_utils/model_arch_config_convertor.py, `_get_qk_rope_head_dim`.
    """
    own = c.raw.get("qk_rope_head_dim", c.defaults.get("qk_rope_head_dim"))
    nope = c.integer("qk_nope_head_dim", minimum=0)
    c.put("qk_head_dim", nope + c.checked_integer("qk_rope_head_dim", own, 0))
    if c.get("qk_rope_head_dim") == nope and "qk_rope_head_dim" in c.raw:
        c.drop("qk_rope_head_dim")
        c.put("qk_rope_head_dim", own)


def whole_head_dim(c: Draft) -> None:
    qk_head_dim(c)
    c.put("head_dim", c.get("qk_head_dim"))


def expert_count(c: Draft) -> None:
    """GLM-5: num_experts is an older name of n_routed_experts."""
    if not c.lacks("num_experts"):
        c.put("n_routed_experts", c.get("num_experts"))


def mamba_head_size(c: Draft) -> None:
    """``auto``: the inner width over the heads."""
    if c.get("mamba_d_head") == "auto":
        inner = c.get("mamba_d_ssm")
        width = c.integer("mamba_expand") * c.integer("hidden_size") if inner is None else c.integer("mamba_d_ssm")
        c.put("mamba_d_head", width // c.integer("mamba_n_heads"))


def mamba1_width(c: Draft) -> None:
    c.put("intermediate_size", int(c.number("expand", minimum=0, maximum=2**20) * c.integer("hidden_size")))


def time_step_rank(key: str) -> Rule:
    def rule(c: Draft) -> None:
        if c.get(key) == "auto":
            c.put(key, -(-c.integer("hidden_size") // 16))

    return rule


def lfm2_width(c: Draft) -> None:
    if "block_ff_dim" in c.data:
        c.put("intermediate_size", c.drop("block_ff_dim"))


def tied_embedding(c: Draft) -> None:
    if "tie_embedding" in c.data:
        c.put("tie_word_embeddings", c.drop("tie_embedding"))


def bloom_width(c: Draft) -> None:
    if "n_embed" in c.data:
        c.put("hidden_size", c.drop("n_embed"))


def last_moe_layer(c: Draft) -> None:
    if c.get("moe_layer_end_index") == -1:
        c.put("moe_layer_end_index", c.layers() - 1)


def yarn_defaults(factor: float, original: int) -> Rule:
    """A class whose rotary positions are scaled by default."""

    def rule(c: Draft) -> None:
        if c.lacks("rope_parameters"):
            c.put(
                "rope_parameters",
                {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original},
            )

    return rule


def doubled_layers(c: Draft) -> None:
    """LongCat-Flash: every layer has two attention layers."""
    if "num_hidden_layers" in c.data:
        c.put("num_layers", c.layers() // 2)
        c.drop("num_hidden_layers")
    c.put("num_hidden_layers", 2 * c.integer("num_layers", maximum=MAXIMUM_LAYERS // 2))
    if c.lacks("qk_head_dim"):
        qk_head_dim(c)


def empty(key: str) -> Rule:
    """A list that is empty where the file has none."""

    def rule(c: Draft) -> None:
        if c.lacks(key):
            c.put(key, [])

    return rule


def one_width_per_layer(c: Draft) -> None:
    """Gemma 3n: one MLP width per layer."""
    if not isinstance(c.get("intermediate_size"), list):
        c.put("intermediate_size", [c.integer("intermediate_size")] * c.layers())
    c.sequence("intermediate_size", length=c.layers())


def moe_layers(c: Draft) -> None:
    """Llama 4: every ``interleave_moe_layer_step``-th layer has experts."""
    if c.lacks("moe_layers"):
        step = c.integer("interleave_moe_layer_step")
        c.put("moe_layers", list(range(step - 1, c.layers(), step)))


def embedding_width(c: Draft) -> None:
    if c.lacks("word_embed_proj_dim"):
        c.put("word_embed_proj_dim", c.integer("hidden_size"))


def rope_by_layer(full: Mapping[str, Any], sliding: Mapping[str, Any]) -> Rule:
    """A class whose full and sliding layers rotate differently by default."""

    def rule(c: Draft) -> None:
        if c.lacks("rope_parameters"):
            c.put("rope_parameters", {"full_attention": dict(full), "sliding_attention": dict(sliding)})

    return rule


PLAIN_ROPE = {"rope_type": "default"}
