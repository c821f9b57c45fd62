"""What the config classes compute from their fields, model type by model type.

A rule is a function that reads a draft and puts values into it; a model type has a tuple of them, in the order of its
class's ``__post_init__`` (transformers/models/*/configuration_*.py, or vLLM's transformers_utils/configs/*.py where
vLLM has a class of its own). tests/hf compare the results with the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.hf import checks, classes, rope, sizes
from kvplan.hf import layer_types as lt
from kvplan.hf import small_classes as small
from kvplan.hf.draft import Draft, Rule
from kvplan.hf.layer_types import FULL, INDEXED, LINEAR, SLIDING

_QWEN = (sizes.window_needs_flag, sizes.kv_heads, lt.windowed_from("max_window_layers"))
_HYBRID_QWEN = (lt.interval(FULL),)
_MLA = (sizes.kv_heads, sizes.mla_head_dim)
_GEMMA4 = (
    sizes.bidirectional_all_window,
    lt.every(6, SLIDING),
    lt.last_is_full,
    sizes.rope_by_layer({"rope_type": "proportional", "partial_rotary_factor": 0.25}, sizes.PLAIN_ROPE),
    classes.global_layers,
)
_DSA = (
    lt.first_dense("first_k_dense_replace"),
    lt.indexer_types,
    sizes.mla_head_dim,
    lt.constant(INDEXED),
    sizes.expert_count,
)


_GRANITE_SWA = (small.first_full(4), sizes.kv_heads)


RULES: dict[str, tuple[Rule, ...]] = {
    "afmoe": (lt.every("global_attn_every_n_layers", SLIDING), sizes.kv_heads),
    "apertus": (sizes.kv_heads, small.llama3_rope(12000000.0, 8.0)),
    "arcee": (sizes.head_dim, sizes.kv_heads),
    "aria_text": (sizes.head_dim, sizes.kv_heads),
    "axk1": (small.axk1,),
    "beam": (lt.constant(SLIDING), lt.constant("sparse", "mlp_layer_types"), classes.beam),
    "bamba": (sizes.kv_heads, sizes.mamba_head_size, lt.bamba),
    "bitnet": (sizes.kv_heads,),
    "bloom": (sizes.bloom_width,),
    "chatglm": (small.chatglm,),
    "cohere": (sizes.kv_heads,),
    "cohere2": (sizes.kv_heads, sizes.divided_head_dim, lt.every("sliding_window_pattern", SLIDING, default=4)),
    "cohere2_moe": (sizes.kv_heads, small.cohere2_moe),
    "cwm": (
        small.llama3_rope(1000000.0, 16.0),
        small.first_full(4),
        small.no_zero_window,
        sizes.head_dim,
        sizes.kv_heads,
    ),
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "deepseek_v32": _MLA,
    "deepseek_v4": (classes.deepseek_v4,),
    "deepseek_v41": (classes.deepseek_v41,),
    "ernie4_5": (sizes.kv_heads, sizes.head_dim),
    "ernie4_5_moe": (sizes.last_moe_layer,),
    "exaone4": (lt.exaone,),
    "exaone_moe": (lt.first_dense("first_k_dense_replace"), lt.exaone),
    "falcon": (classes.falcon_heads,),
    "falcon_h1": (sizes.kv_heads, sizes.mamba_head_size, lt.falcon_h1),
    "falcon_mamba": (sizes.mamba1_width, sizes.time_step_rank("time_step_rank")),
    "flex_olmo": (sizes.kv_heads,),
    "gemma2": (lt.every(2, SLIDING),),
    "gemma3_text": (sizes.bidirectional_window, lt.every("sliding_window_pattern", SLIDING, default=6)),
    "gemma3n_text": (sizes.one_width_per_layer, lt.every(5, SLIDING)),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "glm4_moe_lite": (lt.first_dense(1), sizes.head_dim_taken_for_rotary),
    "glm5_next_text": (
        sizes.kv_heads,
        lt.first_dense(3),
        lt.glm5_next,
        lt.indexer_types,
        classes.linear_attention_section,
        classes.rotary_head_dim_only,
    ),
    "glm_moe_dsa": _DSA,
    "gpt_bigcode": (small.gpt_bigcode,),
    "gpt_oss": (sizes.kv_heads, sizes.head_dim, lt.every(2, SLIDING), sizes.yarn_defaults(32.0, 4096)),
    "granite": (sizes.kv_heads,),
    "granite_swa": _GRANITE_SWA,
    "granitemoe": (sizes.kv_heads,),
    "granitemoe_swa": _GRANITE_SWA,
    "granitemoehybrid": (sizes.kv_heads, sizes.mamba_head_size, lt.constant(LINEAR)),
    "granitemoeshared": (sizes.kv_heads,),
    "hunyuan_v1_dense": (sizes.kv_heads,),
    "hunyuan_v1_moe": (sizes.kv_heads,),
    "hy_v3": (lt.first_dense(1),),
    "hy_v4": (sizes.mla_head_dim, lt.hy_v4, lt.first_dense(1)),
    "hyperclovax": (small.hyperclovax,),
    "jais2": (sizes.head_dim, sizes.kv_heads),
    "jamba": (sizes.kv_heads, sizes.time_step_rank("mamba_dt_rank"), lt.jamba),
    "k3_dspark": (classes.k3_dspark, *_MLA),
    "kimi_k2": _MLA,
    "kimi_linear": (classes.kimi_linear,),
    "kolibri1": (lt.every(5, SLIDING),),
    "laguna": (
        lt.constant(FULL),
        lt.first_dense(1),
        classes.heads_per_layer,
        sizes.rope_by_layer(sizes.PLAIN_ROPE, sizes.PLAIN_ROPE),
    ),
    "lfm2": (lt.lfm2, sizes.tied_embedding, sizes.lfm2_width),
    "lfm2_moe": (sizes.tied_embedding,),
    "llama": (sizes.head_dim, sizes.kv_heads),
    "llama4_text": (sizes.kv_heads, sizes.head_dim, sizes.moe_layers, lt.llama4),
    "longcat_flash": (sizes.kv_heads, sizes.doubled_layers),
    "mamba": (sizes.mamba1_width, sizes.time_step_rank("time_step_rank")),
    "mamba2": (sizes.time_step_rank("time_step_rank"),),
    "mellum": (lt.constant(FULL), lt.constant("sparse", "mlp_layer_types"), small.mellum),
    "mimo_v2_flash": (
        lt.mimo_v2_flash,
        lt.first_dense(1),
        sizes.rope_by_layer(sizes.PLAIN_ROPE, sizes.PLAIN_ROPE),
        classes.window_size_plus_query,
    ),
    "minicpm3": (small.minicpm3,),
    "minimax_m3_mtp": (classes.minimax_m3,),
    "minimax_m3_text": (classes.minimax_m3,),
    "ministral": (sizes.kv_heads, lt.window_means_all_sliding),
    "ministral3": (sizes.yarn_defaults(16.0, 16384), sizes.head_dim, sizes.kv_heads),
    "mistral": (sizes.head_dim, sizes.kv_heads),
    "mistral4": (sizes.yarn_defaults(128.0, 8192), sizes.kv_heads, sizes.whole_head_dim),
    "mixtral": (sizes.kv_heads,),
    "muse_glimmer_assistant": (lt.muse_glimmer_assistant,),
    "muse_glimmer_text": (lt.muse_glimmer,),
    "muse_spark_dspark": (classes.muse_spark_dspark,),
    "musespark1x_text": (classes.muse_spark_1x,),
    "nanochat": (sizes.kv_heads,),
    "nemotron": (sizes.head_dim,),
    "nemotron_h": (lt.nemotron_h, sizes.kv_heads),
    "olmo": (sizes.kv_heads,),
    "olmo2": (sizes.kv_heads,),
    "olmo3": (sizes.kv_heads, lt.every(4, SLIDING)),
    "olmo_hybrid": (lt.olmo_hybrid, classes.olmo_hybrid_heads),
    "olmoe": (sizes.kv_heads,),
    "opt": (sizes.embedding_width,),
    "phi": (sizes.kv_heads,),
    "phi3": (sizes.kv_heads,),
    "phimoe": (sizes.kv_heads,),
    "qwen2": _QWEN,
    "qwen2_5_vl_text": _QWEN,
    "qwen2_moe": (sizes.empty("mlp_only_layers"), sizes.window_needs_flag_or_zero, lt.qwen2_moe),
    "qwen2_vl_text": _QWEN,
    "qwen3": _QWEN,
    "qwen3_5_moe_text": _HYBRID_QWEN,
    "qwen3_5_text": _HYBRID_QWEN,
    "qwen3_moe": (sizes.window_needs_flag, sizes.empty("mlp_only_layers")),
    "qwen3_next": (sizes.empty("mlp_only_layers"), *_HYBRID_QWEN),
    "qwen3_vl_moe_text": (sizes.kv_heads, sizes.falsy_head_dim, sizes.no_window, sizes.empty("mlp_only_layers")),
    "qwen3_vl_text": (sizes.kv_heads,),
    "qwen4_exp_text": (classes.ple, lt.interval(INDEXED), lt.renamed(FULL, INDEXED)),
    "RefinedWeb": (classes.refined_web_heads,),
    "RefinedWebModel": (classes.refined_web_heads,),
    "seed_oss": (sizes.kv_heads, sizes.head_dim),
    "smollm3": (sizes.kv_heads, lt.smollm3),
    "step3p5": (classes.step3p5,),
    "step3_text": (small.step3_text,),
    "vaultgemma": (lt.every(2, SLIDING),),
    "youtu": _MLA,
    "zamba2": (classes.zamba2_widths, lt.zamba2),
}
"""Model type -> its rules. A type with an entry in defaults.jsonl and none here computes nothing that matters."""


ROPE_STYLES = {
    "deepseek_v4": rope.KEPT,
    "gemma3_text": rope.LAYERED,
    "gemma3n_text": rope.LAYERED,
    "gemma4_text": rope.KEPT,
    "gemma4_unified_text": rope.KEPT,
    "gpt_neox": rope.NEOX,
    "laguna": rope.KEPT,
    "mimo_v2_flash": rope.KEPT,
    "minimax_m2": rope.ROTARY_DIM,
    "olmo3": rope.LAYERED,
    "phi3": rope.PHI3,
    "qwen2_5_vl_text": rope.MROPE,
    "qwen2_vl_text": rope.MROPE,
    "step3p5": rope.KEPT,
}


UNCHECKED_LAYER_TYPES = frozenset(("nemotron_h", "kimi_linear", "musespark1x_text", "muse_spark_dspark"))
"""Classes whose ``layer_types`` Transformers does not compare with the number of layers."""


def apply(model_type: str, c: Draft, known: Mapping[str, Any]) -> None:
    """All rules of a model type, then what every class does. KvplanError where a field they need cannot be used.

    ``known`` is the type's line of the table, empty where it has none.
    """
    kinds = {name: kind for kind, names in known.get("fields", {}).items() for name in names.split()}
    checks.fields(c, model_type, kinds)
    for rule in RULES.get(model_type, ()):
        rule(c)
    rope.standardize(c, ROPE_STYLES.get(model_type))
    if kinds and not known.get("own_init"):
        c.restore(kinds)
    lt.finish(c)
    checks.layer_numbers(c)
    if model_type in checks.ARCHITECTURE:
        checks.ARCHITECTURE[model_type](c)
    if model_type not in UNCHECKED_LAYER_TYPES:
        lt.check(c, lt.DEEPSEEK_V4 if model_type == "deepseek_v4" else lt.USUAL)
