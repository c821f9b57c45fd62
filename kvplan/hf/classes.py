"""Rules of single config classes: what only one model's class computes, among them vLLM's own classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.hf import layer_types as lt
from kvplan.hf import sizes
from kvplan.hf.config import Config, shown
from kvplan.hf.draft import Draft
from kvplan.hf.layer_types import FULL


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
    sizes.mla_head_dim(c)


def zamba2_widths(c: Draft) -> None:
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    if not c.get("intermediate_size"):
        c.put("intermediate_size", 4 * hidden)
    c.put("attention_hidden_size", 2 * hidden)
    c.put("attention_head_dim", 2 * hidden // heads)
    c.put("mamba_headdim", int(c.number("mamba_expand") * hidden) // c.integer("n_mamba_heads"))
    if c.truthy("use_long_context"):
        c.put("max_position_embeddings", 16384)
    sizes.kv_heads(c)
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
    sizes.kv_heads(c)


def falcon_heads(c: Draft) -> None:
    if "n_embed" in c.data:
        c.put("hidden_size", c.drop("n_embed"))
    if c.lacks("num_kv_heads"):
        c.put("num_kv_heads", c.integer("num_attention_heads"))
    if c.lacks("ffn_hidden_size"):
        c.put("ffn_hidden_size", 4 * c.integer("hidden_size"))
    sizes.divided_head_dim(c)


def refined_web_heads(c: Draft) -> None:
    """vLLM's RWConfig (transformers_utils/configs/falcon.py)."""
    if "n_embed" in c.data:
        c.put("hidden_size", c.drop("n_embed"))
    if c.lacks("n_head_kv"):
        c.put("n_head_kv", 1)
    if c.get("hidden_size") == 8192:
        c.put("new_decoder_architecture", True)
    c.put("head_dim", c.integer("hidden_size") // c.integer("n_head"))


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


def step3p5(c: Draft) -> None:
    """Step 3.5: MTP entries split off, experts from a list of indices, query heads of the sliding layers apart."""
    lt.step3p5(c)
    _step3p5_experts(c)
    if c.lacks("num_sliding_attention_heads"):
        section = c.section("attention_other_setting")
        c.drop("attention_other_setting")
        heads = section.get("num_attention_heads") if section is not None else None
        c.put("num_sliding_attention_heads", heads if heads is not None else c.integer("num_attention_heads"))
    if "per_layer_config" not in c:
        own = {"num_attention_heads": c.get("num_sliding_attention_heads")}
        kinds = c.sequence("layer_types")
        c.put("per_layer_config", {str(i): own for i, kind in enumerate(kinds) if kind == lt.SLIDING})
    _step3p5_rope(c)


def _step3p5_experts(c: Draft) -> None:
    if not c.lacks("mlp_layer_types"):
        return
    named = c.drop("moe_layers_enum")
    if named is None:
        sparse = set(range(3, c.layers()))
    else:
        items = named.split(",") if isinstance(named, str) else c.sequence("moe_layers_enum", named)
        sparse = {c.checked_integer("moe_layers_enum", _number(item), 0) for item in items if str(item).strip()}
    n, extra = c.layers(), c.integer("num_nextn_predict_layers", 0, minimum=0)
    kinds = ["sparse" if i in sparse else "dense" for i in range(n + extra)]
    c.put("mlp_layer_types", kinds[:n])
    if extra:
        c.put("mtp_mlp_layer_types", kinds[n:])


def _number(item: Any) -> Any:
    return int(item) if isinstance(item, str) and item.strip().isdecimal() and len(item) < 10 else item


def _step3p5_rope(c: Draft) -> None:
    """One set per layer type; a legacy scaling is that of the full layers."""
    scaling, kinds = c.drop("rope_scaling"), sorted({str(kind) for kind in c.sequence("layer_types")})
    for key in ("rope_theta", "partial_rotary_factors"):
        c.drop(key)
    given = c.section("rope_parameters")
    if given is not None and all(isinstance(given.get(kind), Mapping) for kind in kinds):
        c.put("rope_parameters", {kind: dict(given.get(kind)) for kind in kinds})
        return
    parameters = {kind: dict(sizes.PLAIN_ROPE) for kind in kinds}
    if isinstance(scaling, Mapping) and "full_attention" in parameters:
        parameters["full_attention"].update(scaling)
    c.put("rope_parameters", parameters)


def beam(c: Draft) -> None:
    """vLLM's BeamConfig (transformers_utils/configs/beam.py): rotary positions of the one kind that has them."""
    given = c.section("rope_parameters")
    if given is None:
        c.put("rope_parameters", {"rope_type": "default", "rope_theta": 10000.0})
    elif given.data.keys() <= {"sliding_attention", FULL}:
        kinds = [kind for kind, value in given.data.items() if value is not None]
        if len(kinds) != 1 or not isinstance(given.get(kinds[0]), Mapping):
            raise c.error("rope_parameters", "must hold one kind of layer's parameters")
        c.put("rope_parameters", dict(given.get(kinds[0])))


def kimi_linear(c: Draft) -> None:
    """vLLM's KimiLinearConfig (transformers_utils/configs/kimi_linear.py)."""
    sizes.head_dim(c)
    sizes.kv_heads(c)


def ple(c: Draft) -> None:
    """Qwen4-Exp: the layers with per-layer embeddings, and how many convolution states a linear layer keeps."""
    ids = [] if c.lacks("ple_layer_ids") else sorted(set(c.integers("ple_layer_ids")))
    c.put("ple_layer_ids", ids)
    if c.lacks("ple_embed_dim"):
        c.put("ple_embed_dim", c.integer("hidden_size"))
    c.put("number_of_conv_states", 3 if ids else 1)


def minimax_m3(c: Draft) -> None:
    """vLLM's MiniMaxM3TextConfig: three dense layers, then sparse ones with an indexer."""
    pattern = [0] * 3 + [1] * 57
    if c.lacks("moe_layer_freq"):
        c.put("moe_layer_freq", pattern)
    if c.lacks("sparse_attention_config"):
        c.put("sparse_attention_config", {**_MINIMAX_M3_SPARSE, "sparse_attention_freq": pattern})


_MINIMAX_M3_SPARSE = {
    "use_sparse_attention": True,
    "sparse_index_dim": 128,
    "sparse_num_index_heads": 4,
    "sparse_topk_blocks": 16,
    "sparse_block_size": 128,
    "sparse_disable_index_value": [0] * 3 + [1] * 57,
    "sparse_score_type": "max",
    "sparse_init_block": 0,
    "sparse_local_block": 1,
}


def k3_dspark(c: Draft) -> None:
    """vLLM's K3DSparkConfig, and what it does not accept (transformers_utils/configs/k3_dspark.py)."""
    for key in ("n_routed_experts", "n_shared_experts", "num_experts_per_tok"):
        if key not in c.data:
            c.put(key, 0)
    for key in ("mla_use_nope", "mla_use_output_gate", "mla_use_qk_norm", "dspark_bonus_anchor"):
        if c.get(key):
            raise c.error(key, "is set, which vLLM's MLA DSpark drafter does not support")
    c.integer("q_lora_rank")
    if not c.get("draft_vocab_size"):
        c.put("draft_vocab_size", c.integer("vocab_size"))
    if c.get("draft_vocab_size") != c.get("vocab_size"):
        raise c.error("draft_vocab_size", "must equal vocab_size for vLLM's MLA DSpark drafter")
    ids = c.integers("target_layer_ids")
    if not ids or c.get("num_target_layers") != len(ids):
        raise c.error("num_target_layers", f"must be the number of target_layer_ids ({len(ids)})")


def deepseek_v41(c: Draft) -> None:
    """vLLM's DeepseekV41Config: the text section's fields are the config's own (configs/deepseek_v41.py)."""
    text, vision = c.section("text_config"), c.section("vision_config")
    scaling = None
    if text is not None:
        outside = {"model_type", "dtype", "architectures", "is_encoder_decoder", "transformers_version", "rope_scaling"}
        scaling = text.get("rope_scaling")
        for key in sorted(text.data):
            if key not in outside and (key not in c.data or key == "rope_parameters"):
                c.put(key, text.get(key))
    if scaling is not None:
        c.put("rope_parameters", scaling)
    quantization = c.section("quantization_config")
    if quantization is not None and "expert_dtype" in quantization and "expert_dtype" not in c:
        c.put("expert_dtype", quantization.get("expert_dtype"))
    # The vision tower has no cache; its sizes tell its weights.
    for key, name, usual in (
        ("vision_n_layers", "num_hidden_layers", 0),
        ("vision_dim", "hidden_size", 1024),
        ("vision_n_heads", "num_attention_heads", 16),
        ("vision_inter_dim", "intermediate_size", 2816),
        ("vision_patch_size", "patch_size", 14),
        ("vision_max_n_token", "max_image_tokens", 1024),
    ):
        c.put(key, usual if vision is None else vision.get(name, usual))
    c.put("text_config", None)


def muse_spark_1x(c: Draft) -> None:
    """vLLM's MuseSpark1xTextConfig (transformers_utils/configs/muse_spark.py): nested sizes and window pattern."""
    sizes.kv_heads(c)
    for key, usual in _MUSE_SECTIONS.items():
        section = c.section(key)
        given = {} if section is None else {k: section.get(k) for k in usual if k in section}
        c.put(key, {**usual, **given})
    pattern = c.get("global_attn_cfg")
    if isinstance(pattern, str) and pattern.startswith("[") and pattern.endswith("]"):
        parts = [part.strip() for part in pattern[1:-1].split(",")]
        pattern = [int(part) if part.lstrip("+-").isdecimal() else part for part in parts]
    if not c.lacks("every_n_layers_global") and pattern != "all":
        raise c.error("global_attn_cfg", "must be all where every_n_layers_global is set")
    if not c.lacks("every_n_layers_nope") and not c.get("every_n_layers_global"):
        n = c.integer("every_n_layers_nope")
        if not isinstance(pattern, (list, str)) or len(pattern) != n:
            raise c.error("global_attn_cfg", f"must have every_n_layers_nope ({n}) entries, got {shown(pattern)}")
    c.put("global_attn_cfg", None if pattern == "all" else pattern)
    hidden = "MuseSpark1xHybridForCausalLM" if c.get("gated_delta_net")["enable"] else "MuseSpark1xForCausalLM"
    c.put("architectures", [hidden])


_MUSE_SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "moe": {
        "is_enabled": True,
        "num_experts": 8,
        "interleave_moe_layer_step": 1,
        "n_dense_layers_before_moe": 0,
        "use_shared_expert": True,
        "override_routed_hidden_dim": None,
        "override_shared_hidden_dim": None,
    },
    "gated_delta_net": {
        "enable": False,
        "mode": "chunk",
        "use_gate": True,
        "use_short_conv": True,
        "conv_size": 4,
        "num_heads": None,
        "head_dim": None,
        "gated_delta_net_use_low_rank_proj": False,
        "low_rank_compression_ratio": 4,
    },
}


def muse_spark_dspark(c: Draft) -> None:
    """vLLM's MuseSparkDSparkConfig."""
    if not c.lacks("draft_position_mode"):
        c.put("use_rope", c.get("draft_position_mode") == "rope")
    muse_spark_1x(c)
    if c.lacks("draft_vocab_size"):
        c.put("draft_vocab_size", c.integer("vocab_size"))
    c.put("architectures", ["MuseSparkDSparkModel"])


def deepseek_v4(c: Draft) -> None:
    """DeepSeek-V4's fields of older checkpoints folded into today's."""
    usual = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    section = c.section("compress_rates")
    rates = dict(usual if section is None else section.data)
    for kind, name in (("compressed_sparse_attention", "csa"), ("heavily_compressed_attention", "hca")):
        given = c.drop(f"compress_rate_{name}")
        if given is not None:
            rates[kind] = given
    c.put("compress_rates", rates)
    lt.deepseek_v4(c)
    c.drop("compress_ratios")
    rotary = c.optional_integer("qk_rope_head_dim")
    if c.lacks("partial_rotary_factor"):
        c.put("partial_rotary_factor", rotary / c.integer("head_dim") if rotary else 64 / 512)
    c.put("qk_rope_head_dim", int(c.integer("head_dim") * c.number("partial_rotary_factor")))
    _deepseek_v4_rope(c)


def _deepseek_v4_rope(c: Draft) -> None:
    """Two sets: plain for window layers, the file's scaled one for compressed layers."""
    parameters = c.drop("rope_scaling") or c.get("rope_parameters") or {}
    if not isinstance(parameters, Mapping):
        raise c.error("rope_parameters", f"must be a JSON object, got {shown(parameters)}")
    main, compress = parameters.get("main"), parameters.get("compress")
    if not (isinstance(main, Mapping) and isinstance(compress, Mapping)):
        main = sizes.PLAIN_ROPE
        compress = {key: value for key, value in parameters.items() if key not in ("main", "compress")}
        compress.setdefault("rope_type", compress.get("type", "default"))
    c.put("rope_parameters", {"main": dict(main), "compress": dict(compress)})


ASSISTANTS = frozenset(("gemma4_assistant", "gemma4_unified_assistant"))
"""Gemma 4's drafters: all of their layers read the target's caches."""


def apply_to_sections(model_type: str, sections: dict[str, Config]) -> dict[str, Config]:
    """What a composite class changes in its nested configs."""
    text = sections.get("text_config")
    if model_type not in ASSISTANTS or text is None:
        return sections
    if not text.get("num_kv_shared_layers"):
        text = text.replace(num_kv_shared_layers=text.integer("num_hidden_layers"))
    for key in ("hidden_size_per_layer_input", "vocab_size_per_layer_input", "enable_moe_block", "use_double_wide_mlp"):
        if text.get(key):
            raise text.error(key, "must be 0 or false in a Gemma 4 assistant")
    if text.get("num_kv_shared_layers") != text.get("num_hidden_layers"):
        raise text.error("num_kv_shared_layers", "must be num_hidden_layers in a Gemma 4 assistant")
    return {**sections, "text_config": text}
