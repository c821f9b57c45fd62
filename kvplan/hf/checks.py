"""What a config class refuses: a field of another kind than it declares, sizes that do not fit together.

vLLM reads a config through these classes (transformers/models/*/configuration_*.py, ``validate_architecture``, and
huggingface_hub's strict dataclasses), so it does not start with such a file either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvplan.hf.config import shown
from kvplan.hf.draft import Draft

_KINDS = {bool: "b", int: "i", float: "f", str: "s", list: "l", dict: "o", type(None): "n"}
_NAMES = {"b": "true or false", "i": "an integer", "f": "a number with a point", "s": "a string", "l": "a list"}
_NAMES |= {"o": "a JSON object", "n": "null"}

READ_ONLY = {
    "falcon": ("head_dim", "rotary"),
    "falcon_h1": ("layers_block_type", "layer_types"),
    "bamba": ("layers_block_type", "layer_types"),
    "jamba": ("layers_block_type", "layer_types", "layers_num_experts"),
    "mamba": ("layer_types",),
    "mamba2": ("layer_types",),
    "falcon_mamba": ("layer_types",),
    "RefinedWeb": ("head_dim", "rotary"),
    "RefinedWebModel": ("head_dim", "rotary"),
}
"""Fields that the class computes and that a file may not state."""


def fields(c: Draft, model_type: str, kinds: Mapping[str, str]) -> None:
    """KvplanError where the file has a field in a kind that its class does not take. ``kinds``: name -> letters."""
    for key, value in c.raw.items():
        accepted = kinds.get(key, "*")
        kind = _KINDS.get(type(value), "")
        if "*" not in accepted and kind not in accepted:
            names = " or ".join(_NAMES[letter] for letter in accepted if letter in _NAMES)
            raise c.error(key, f"must be {names}, got {shown(value)}")
    for key in READ_ONLY.get(model_type, ()):
        if key in c.raw:
            raise c.error(key, f"follows from other fields of a {model_type} config; remove it")


def layer_numbers(c: Draft) -> None:
    """KvplanError where the file has per_layer_config for a layer that the model does not have.

    transformers/integrations/heterogeneity/configuration_utils.py; every class checks it.
    """
    own = c.raw.get("per_layer_config")
    if not isinstance(own, Mapping) or not own:
        return
    count = c.layers()
    for name in own:
        if not (len(str(name)) < 9 and str(name).isdecimal() and int(name) < count):
            raise c.error("per_layer_config", f"must have layers from 0 to {count - 1} as its keys, got {name!r}")


def _heads_divide_width(c: Draft) -> None:
    width, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    if width % heads:
        raise c.error("hidden_size", f"must be a multiple of num_attention_heads ({heads}), got {width}")


def _state_heads_divide_width(c: Draft) -> None:
    inner = c.get("mamba_d_ssm")
    width = c.integer("mamba_expand") * c.integer("hidden_size") if inner is None else c.integer("mamba_d_ssm")
    heads = c.integer("mamba_n_heads")
    if width % heads or c.integer("mamba_d_head") * heads != width:
        raise c.error("mamba_n_heads", f"times mamba_d_head must be the state layers' width ({width}), got {heads}")


def _mamba2(c: Draft) -> None:
    heads, size = c.integer("num_heads"), c.integer("head_dim")
    if c.integer("hidden_size") * c.number("expand") != heads * size:
        raise c.error("num_heads", f"times head_dim ({size}) must be hidden_size times expand, got {heads}")


def _jamba(c: Draft) -> None:
    for kind in ("attn", "expert"):
        offset, period = c.integer(f"{kind}_layer_offset", minimum=0), c.integer(f"{kind}_layer_period")
        if offset >= period:
            raise c.error(f"{kind}_layer_offset", f"must be below {kind}_layer_period ({period}), got {offset}")


def _olmo_hybrid(c: Draft) -> None:
    kinds = c.texts("layer_types")
    if "linear_attention" not in kinds or all(kind == "linear_attention" for kind in kinds):
        raise c.error("layer_types", "must have linear_attention layers and others")


def _glm5_next(c: Draft) -> None:
    heads = c.integer("num_attention_heads")
    if c.integer("num_key_value_heads") != heads:
        raise c.error("num_key_value_heads", f"must be num_attention_heads ({heads})")
    pool = c.integer("index_kpool")
    if c.integer("index_topk") % pool:
        raise c.error("index_topk", f"must be a multiple of index_kpool ({pool})")
    c.integer("q_lora_rank", minimum=0)
    if c.integer("qk_rope_head_dim", minimum=0):
        raise c.error("qk_rope_head_dim", f"must be 0, got {c.get('qk_rope_head_dim')}")


def _laguna(c: Draft) -> None:
    for key in ("num_attention_heads_per_layer", "layer_types", "mlp_layer_types"):
        c.sequence(key, length=c.layers())


def _qwen4_exp(c: Draft) -> None:
    kinds = c.texts("layer_types", allowed=("linear_attention", "indexed_attention"))
    c.integer("hc_count", minimum=2)
    experts = c.integer("num_experts")
    c.integer("num_experts_per_tok", maximum=experts)
    indexer = [f"indexer_{name}" for name in ("n_heads", "kv_heads", "head_dim", "budget", "compress_ratio")]
    if not all(c.lacks(key) for key in indexer):
        values = [c.integer(key) for key in indexer]
        if values[1] != 1 or values[3] % values[4]:
            raise c.error("indexer_kv_heads", "must be 1, and indexer_budget a multiple of indexer_compress_ratio")
        rope = c.section("rope_parameters")
        rotary = int(c.integer("head_dim") * (1.0 if rope is None else rope.number("partial_rotary_factor", 1.0)))
        if rotary > values[2]:
            raise c.error("indexer_head_dim", f"must be at least the rotary part of a head ({rotary})")
    for i in c.integers("ple_layer_ids", minimum=1, maximum=len(kinds)):
        if kinds[i - 1] != "linear_attention":
            raise c.error("ple_layer_ids", f"must name linear_attention layers, got {i}")


def _nemotron_h(c: Draft) -> None:
    allowed = ("full_attention", "linear_attention", "moe", "mlp")
    c.texts("layers_block_type", allowed=allowed)
    if c.integer("num_nextn_predict_layers", 0, minimum=0):
        c.texts("mtp_layers_block_type", allowed=allowed)


def _kolibri1(c: Draft) -> None:
    if "sliding_attention" in c.texts("layer_types"):
        c.integer("sliding_window")


ARCHITECTURE: dict[str, Callable[[Draft], None]] = {
    "arcee": _heads_divide_width,
    "aria_text": _heads_divide_width,
    "bamba": _state_heads_divide_width,
    "cwm": _heads_divide_width,
    "deepseek_v2": _heads_divide_width,
    "falcon_h1": _state_heads_divide_width,
    "gemma2": _heads_divide_width,
    "gemma3_text": _heads_divide_width,
    "gemma3n_text": _heads_divide_width,
    "glm5_next_text": _glm5_next,
    "gpt_neox": _heads_divide_width,
    "granitemoehybrid": _state_heads_divide_width,
    "hyperclovax": _heads_divide_width,
    "jais2": _heads_divide_width,
    "jamba": _jamba,
    "kolibri1": _kolibri1,
    "laguna": _laguna,
    "llama": _heads_divide_width,
    "mamba2": _mamba2,
    "minicpm3": _heads_divide_width,
    "muse_glimmer_text": _heads_divide_width,
    "nemotron_h": _nemotron_h,
    "olmo_hybrid": _olmo_hybrid,
    "qwen4_exp_text": _qwen4_exp,
    "vaultgemma": _heads_divide_width,
}
"""Model type -> what its class checks once everything is computed."""
