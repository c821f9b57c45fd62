"""What the config classes compute from their fields, model type by model type.

A rule is a function that reads a draft and puts values into it; a model type has a tuple of them, in the order of its
class's ``__post_init__`` (transformers/models/*/configuration_*.py, or vLLM's transformers_utils/configs/*.py where
vLLM has a class of its own). tests/hf compare the results with the classes.
"""

from __future__ import annotations

from kvplan.hf import layer_types as lt
from kvplan.hf import rope
from kvplan.hf.config import MAXIMUM_LAYERS
from kvplan.hf.draft import Draft
from kvplan.hf.layer_types import FULL, INDEXED, LINEAR, SLIDING, Rule


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
    """MLA classes give the rotary part as head_dim, whatever the file says."""
    qk_head_dim(c)
    c.put("head_dim", c.get("qk_rope_head_dim"))


def mla_head_dim_unless_given(c: Draft) -> None:
    """As `mla_head_dim`, but a head_dim in the file is set after it and wins."""
    given = c.get("head_dim")
    mla_head_dim(c)
    if "head_dim" in c.data and given is not None and "head_dim" not in c.defaults:
        c.put("head_dim", given)


def whole_head_dim(c: Draft) -> None:
    qk_head_dim(c)
    c.put("head_dim", c.get("qk_head_dim"))


def rotary_part_of_the_file(raw_key: str = "qk_rope_head_dim") -> Rule:
    """GLM-4.7-Flash: the class takes head_dim for qk_rope_head_dim; vLLM then reads the file's own value.

    vLLM: transformers_utils/model_arch_config_convertor.py, `_get_qk_rope_head_dim`.
    """

    def rule(c: Draft) -> None:
        pass

    return rule


def expert_count(c: Draft) -> None:
    """GLM-5: num_experts is an older name of n_routed_experts."""
    if not c.lacks("num_experts"):
        c.put("n_routed_experts", c.get("num_experts"))


def linear_attention_section(c: Draft) -> None:
    """GLM-5.3-Flash: the linear layers' sizes lie in a section of their own in the file."""
    section = c.section("linear_attn_config")
    if section is None:
        return
    for key, name in (
        ("linear_head_dim", "head_dim"),
        ("linear_num_heads", "num_heads"),
        ("linear_conv_kernel_dim", "short_conv_kernel_size"),
        ("linear_lower_bound", "gate_lower_bound"),
    ):
        if name in section:
            c.put(key, section.get(name))
    if section.get("safe_gate", True) and c.lacks("linear_lower_bound"):
        c.put("linear_lower_bound", -5.0)


def rotary_head_dim_only(c: Draft) -> None:
    c.drop("head_dim")
    mla_head_dim(c)


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


def zamba2_widths(c: Draft) -> None:
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    if not c.get("intermediate_size"):
        c.put("intermediate_size", 4 * hidden)
    c.put("attention_hidden_size", 2 * hidden)
    c.put("attention_head_dim", 2 * hidden // heads)
    c.put("mamba_headdim", int(c.number("mamba_expand") * hidden) // c.integer("n_mamba_heads"))
    if c.truthy("use_long_context"):
        c.put("max_position_embeddings", 16384)
    kv_heads(c)
    c.put("kv_channels", hidden // heads)
    c.put("num_query_groups", heads)


def olmo_hybrid_heads(c: Draft) -> None:
    for key in ("linear_num_key_heads", "linear_num_value_heads"):
        if c.lacks(key):
            c.put(key, c.integer("num_attention_heads"))
    if c.lacks("linear_key_head_dim"):
        c.put("linear_key_head_dim", int(0.75 * c.integer("hidden_size") / c.integer("linear_num_key_heads")))
    if c.lacks("linear_value_head_dim"):
        c.put("linear_value_head_dim", 2 * c.integer("linear_key_head_dim"))
    kv_heads(c)


def lfm2_width(c: Draft) -> None:
    if "block_ff_dim" in c.data:
        c.put("intermediate_size", c.drop("block_ff_dim"))


def tied_embedding(c: Draft) -> None:
    if "tie_embedding" in c.data:
        c.put("tie_word_embeddings", c.drop("tie_embedding"))


def falcon_heads(c: Draft) -> None:
    if "n_embed" in c.data:
        c.put("hidden_size", c.drop("n_embed"))
    if "num_kv_heads" in c and c.lacks("num_kv_heads"):
        c.put("num_kv_heads", c.integer("num_attention_heads"))
    divided_head_dim(c)


def refined_web_heads(c: Draft) -> None:
    """vLLM's RWConfig (transformers_utils/configs/falcon.py)."""
    if "n_embed" in c.data:
        c.put("hidden_size", c.drop("n_embed"))
    if c.lacks("n_head_kv"):
        c.put("n_head_kv", 1)
    if c.get("hidden_size") == 8192:
        c.put("new_decoder_architecture", True)
    c.put("head_dim", c.integer("hidden_size") // c.integer("n_head"))


def bloom_width(c: Draft) -> None:
    if "n_embed" in c.data:
        c.put("hidden_size", c.drop("n_embed"))


def last_moe_layer(c: Draft) -> None:
    if c.get("moe_layer_end_index") == -1:
        c.put("moe_layer_end_index", c.layers() - 1)


def window_size_plus_query(c: Draft) -> None:
    """MiMo-V2-Flash: sliding_window_size counts the tokens before the query."""
    if not c.lacks("sliding_window_size"):
        c.put("sliding_window", c.integer("sliding_window_size") + 1)


def heads_per_layer(c: Draft) -> None:
    """Laguna: query heads may differ by layer; without a list they do not."""
    if c.lacks("num_attention_heads_per_layer"):
        c.put("num_attention_heads_per_layer", [c.integer("num_attention_heads")] * c.layers())


def global_layers(c: Draft) -> None:
    """Gemma 4: full layers have a head size, and where keys are values also KV heads, of their own."""
    width, heads = c.get("global_head_dim", 512), c.get("num_global_key_value_heads")
    c.put("global_head_dim", width)
    c.put("num_global_key_value_heads", heads)
    if not c.lacks("per_layer_config"):
        return
    own = {"head_dim": width}
    if heads is not None and c.get("attention_k_eq_v", True):
        own["num_key_value_heads"] = heads
    kinds = c.sequence("layer_types")
    c.put("per_layer_config", {str(i): own for i, kind in enumerate(kinds) if kind == FULL})


def sliding_heads(c: Draft) -> None:
    """Step 3.5: sliding layers may have query heads of their own."""
    if c.lacks("num_sliding_attention_heads"):
        section = c.section("attention_other_setting")
        heads = section.get("num_attention_heads") if section is not None else None
        c.put("num_sliding_attention_heads", heads if heads is not None else c.integer("num_attention_heads"))


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
    c.put("num_hidden_layers", 2 * c.integer("num_layers", maximum=MAXIMUM_LAYERS // 2))
    if c.lacks("qk_head_dim"):
        qk_head_dim(c)


def kimi_linear(c: Draft) -> None:
    """vLLM's KimiLinearConfig (transformers_utils/configs/kimi_linear.py)."""
    head_dim(c)
    kv_heads(c)


def ple(c: Draft) -> None:
    """Qwen4-Exp: the layers with per-layer embeddings, and how many convolution states a linear layer keeps."""
    ids = [] if c.lacks("ple_layer_ids") else sorted(set(c.integers("ple_layer_ids")))
    c.put("ple_layer_ids", ids)
    if c.lacks("ple_embed_dim"):
        c.put("ple_embed_dim", c.integer("hidden_size"))
    c.put("number_of_conv_states", 3 if ids else 1)


def deepseek_v4(c: Draft) -> None:
    """DeepSeek-V4's fields of older checkpoints folded into today's."""
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    section = c.section("compress_rates")
    rates.update(section.data if section is not None else {})
    for kind, name in (("compressed_sparse_attention", "csa"), ("heavily_compressed_attention", "hca")):
        given = c.drop(f"compress_rate_{name}")
        rates[kind] = given if given is not None else rates[kind]
    c.put("compress_rates", rates)
    lt.deepseek_v4(c)
    c.drop("compress_ratios")
    rotary = c.optional_integer("qk_rope_head_dim")
    if c.lacks("partial_rotary_factor"):
        c.put("partial_rotary_factor", rotary / c.integer("head_dim") if rotary else 64 / 512)
    c.put("qk_rope_head_dim", int(c.integer("head_dim") * c.number("partial_rotary_factor")))


_QWEN = (window_needs_flag, kv_heads, lt.windowed_from("max_window_layers"))
_HYBRID_QWEN = (lt.interval(FULL),)
_MLA = (kv_heads, mla_head_dim_unless_given)
_DSA = (lt.indexer_types, mla_head_dim_unless_given, lt.constant(INDEXED), expert_count)

RULES: dict[str, tuple[Rule, ...]] = {
    "afmoe": (lt.every("global_attn_every_n_layers", SLIDING), kv_heads),
    "bamba": (kv_heads, mamba_head_size, lt.bamba),
    "bloom": (bloom_width,),
    "cohere": (kv_heads,),
    "cohere2": (kv_heads, divided_head_dim, lt.every("sliding_window_pattern", SLIDING, default=4)),
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "deepseek_v32": _MLA,
    "deepseek_v4": (deepseek_v4,),
    "ernie4_5": (kv_heads, head_dim),
    "ernie4_5_moe": (last_moe_layer,),
    "exaone4": (lt.exaone,),
    "exaone_moe": (lt.first_dense("first_k_dense_replace"), lt.exaone),
    "falcon": (falcon_heads,),
    "falcon_h1": (kv_heads, mamba_head_size, lt.falcon_h1),
    "falcon_mamba": (mamba1_width, time_step_rank("time_step_rank")),
    "gemma2": (lt.every(2, SLIDING),),
    "gemma3_text": (bidirectional_window, lt.every("sliding_window_pattern", SLIDING, default=6)),
    "gemma3n_text": (lt.every(5, SLIDING),),
    "gemma4_text": (bidirectional_all_window, lt.every(6, SLIDING), lt.last_is_full, global_layers),
    "gemma4_unified_text": (bidirectional_all_window, lt.every(6, SLIDING), lt.last_is_full, global_layers),
    "glm4_moe_lite": (qk_head_dim,),
    "glm5_next_text": (kv_heads, lt.glm5_next, lt.indexer_types, linear_attention_section, rotary_head_dim_only),
    "glm_moe_dsa": _DSA,
    "gpt_oss": (kv_heads, head_dim, lt.every(2, SLIDING), yarn_defaults(32.0, 4096)),
    "granite": (kv_heads,),
    "granitemoe": (kv_heads,),
    "granitemoehybrid": (kv_heads, mamba_head_size, lt.constant(LINEAR)),
    "hunyuan_v1_dense": (kv_heads,),
    "hunyuan_v1_moe": (kv_heads,),
    "hy_v3": (lt.first_dense(1),),
    "hy_v4": (mla_head_dim, lt.hy_v4, lt.first_dense(1)),
    "jamba": (kv_heads, time_step_rank("mamba_dt_rank"), lt.jamba),
    "k3_dspark": _MLA,
    "kimi_k2": _MLA,
    "kimi_linear": (kimi_linear,),
    "laguna": (lt.constant(FULL), lt.first_dense(1), heads_per_layer),
    "lfm2": (lt.lfm2, tied_embedding, lfm2_width),
    "lfm2_moe": (tied_embedding,),
    "llama": (head_dim, kv_heads),
    "llama4_text": (kv_heads, head_dim, lt.llama4),
    "longcat_flash": (kv_heads, doubled_layers),
    "mamba": (mamba1_width, time_step_rank("time_step_rank")),
    "mamba2": (time_step_rank("time_step_rank"),),
    "mimo_v2_flash": (lt.mimo_v2_flash, lt.first_dense(1), window_size_plus_query),
    "ministral": (kv_heads, lt.window_means_all_sliding),
    "ministral3": (yarn_defaults(16.0, 16384), head_dim, kv_heads),
    "mistral": (head_dim, kv_heads),
    "mistral4": (yarn_defaults(128.0, 8192), kv_heads, whole_head_dim),
    "mixtral": (kv_heads,),
    "muse_glimmer_text": (lt.muse_glimmer,),
    "musespark1x_text": (kv_heads,),
    "muse_spark_dspark": (kv_heads,),
    "nemotron_h": (lt.nemotron_h, kv_heads),
    "olmo2": (kv_heads,),
    "olmo3": (kv_heads, lt.every(4, SLIDING)),
    "olmo_hybrid": (lt.olmo_hybrid, olmo_hybrid_heads),
    "phi": (kv_heads,),
    "phi3": (kv_heads,),
    "phimoe": (kv_heads,),
    "qwen2": _QWEN,
    "qwen2_5_vl_text": _QWEN,
    "qwen2_moe": (window_needs_flag_or_zero, lt.qwen2_moe),
    "qwen2_vl_text": _QWEN,
    "qwen3": _QWEN,
    "qwen3_5_moe_text": _HYBRID_QWEN,
    "qwen3_5_text": _HYBRID_QWEN,
    "qwen3_moe": (window_needs_flag,),
    "qwen3_next": _HYBRID_QWEN,
    "qwen3_vl_moe_text": (kv_heads, falsy_head_dim, no_window),
    "qwen3_vl_text": (kv_heads,),
    "qwen4_exp_text": (ple, lt.interval(INDEXED), lt.renamed(FULL, INDEXED)),
    "RefinedWeb": (refined_web_heads,),
    "RefinedWebModel": (refined_web_heads,),
    "seed_oss": (kv_heads, head_dim),
    "smollm3": (kv_heads, lt.smollm3),
    "step3p5": (lt.step3p5, sliding_heads),
    "youtu": _MLA,
    "zamba2": (zamba2_widths, lt.zamba2),
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


def apply(model_type: str, c: Draft) -> None:
    """All rules of a model type, then what every class does. KvplanError where a field they need cannot be used."""
    for rule in RULES.get(model_type, ()):
        rule(c)
    rope.standardize(c, ROPE_STYLES.get(model_type))
    lt.finish(c)
    if model_type not in UNCHECKED_LAYER_TYPES:
        lt.check(c)
