"""A params.json in Mistral's format as the config that vLLM makes of it.

Source: vllm/transformers_utils/config.py (`MistralConfigParser`) and vllm/transformers_utils/configs/mistral.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import KvplanError, Refused
from kvplan.hf import reading
from kvplan.hf.config import MAXIMUM_LAYERS, Config, shown
from kvplan.sources.source import Source

_RENAMED = {
    "dim": "hidden_size",
    "norm_eps": "rms_norm_eps",
    "n_kv_heads": "num_key_value_heads",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
}
_EXPERTS = {
    "route_every_n": "moe_layer_freq",
    "first_k_dense_replace": "first_k_dense_replace",
    "num_experts_per_tok": "num_experts_per_tok",
    "num_experts": "n_routed_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "routed_scale": "routed_scaling_factor",
    "num_shared_experts": "n_shared_experts",
    "num_expert_groups": "n_group",
    "num_expert_groups_per_tok": "topk_group",
}
_YARN = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}
_LONGEST = 128_000
"""max_position_embeddings where neither params.json nor config.json has one."""


def as_vllm_reads(source: Source) -> Source:
    """The model as vLLM reads it: with the config of its params.json where that lies beside weights of its format."""
    if not source.has_mistral_format:
        return source
    params, where = source.file("params.json"), f"{source.id}: params.json"
    if not isinstance(params, Mapping):
        raise KvplanError(f"{where}: must hold a JSON object.")
    config = adapted(params, where, source.config, _longest(source))
    return Source(
        source.id,
        source.source,
        config,
        where,
        folder=source.folder,
        read_file=source.file,
        names=lambda: source.names,
        facts=source.facts,
    )


def _longest(source: Source) -> int | None:
    """max_position_embeddings of the config.json; None where that cannot be read, as vLLM then takes its own."""
    try:
        return reading.read(source).text.optional_integer("max_position_embeddings")
    except KvplanError:
        return None


def adapted(params: Mapping[str, Any], where: str, config: Mapping[str, Any], longest: int | None) -> dict[str, Any]:
    """The config.

    ``config`` is the config.json beside it, whose fields fill what params.json leaves out, and ``longest`` the
    max_position_embeddings of its text model. KvplanError for what cannot be used, Refused for a model with audio.
    """
    given = dict(params)
    if given.get("max_position_embeddings") is None:
        given["max_position_embeddings"] = longest or _LONGEST
    for old, new in _RENAMED.items():
        if old in given:
            given[new] = given.pop(old)
    given["model_type"] = given.pop("model_type", "transformer")
    given["tie_word_embeddings"] = given.pop("tied_embeddings", False)
    given["max_seq_len"] = given.pop("max_seq_len", given["max_position_embeddings"])
    given.setdefault("dtype", None)
    read = Config(given, where)
    _sliding_window(read, given)
    _quantization(read, given)
    if given.get("qk_nope_head_dim") and not given.get("moe"):
        given["moe"] = _one_expert(given)
    given["architectures"] = [_architecture(read, given)]
    _yarn(read, given)
    multimodal = read.section("multimodal")
    if multimodal is not None and multimodal.get("whisper_model_args"):
        raise Refused(f"{where}: has an audio encoder (whisper_model_args), which kvplan does not plan.")
    if given.get("vision_encoder") or (multimodal is not None and multimodal.get("vision_encoder_args")):
        given = _with_vision(given)
    return {**config, **given}


def _sliding_window(read: Config, given: dict[str, Any]) -> None:
    """A list of windows becomes one window and the layers' types."""
    window = given.get("sliding_window")
    if not window:
        return
    count = read.integer("num_hidden_layers", maximum=MAXIMUM_LAYERS)
    if isinstance(window, list):
        sizes = {each for each in read.sequence("sliding_window") if each is not None}
        if len(sizes) > 1:
            raise read.error("sliding_window", f"must have one size, got {shown(window)}")
        kinds = ["full_attention" if each is None else "sliding_attention" for each in window]
        given["layer_types"] = kinds * (count // len(window))
        given["sliding_window"] = next(iter(sizes), None)
    elif isinstance(window, int) and given.get("layer_types") is None:
        given["layer_types"] = ["sliding_attention"] * count
    else:
        raise read.error("sliding_window", f"must be an integer or a list of them, got {shown(window)}")


def _quantization(read: Config, given: dict[str, Any]) -> None:
    scheme = read.section("quantization") if given.get("quantization") else None
    if scheme is None:
        return
    del given["quantization"]
    method = str(scheme.get("quant_method", "")).lower().replace("_", "-")
    if scheme.get("qformat_weight") == "fp8_e4m3":
        kind = scheme.get("qscheme_act")
        if kind not in ("NO_SCALES", "TENSOR", None):
            raise read.error("quantization", f"has qscheme_act {shown(kind)}; vLLM loads NO_SCALES and TENSOR")
        dynamic = "dynamic" if kind == "NO_SCALES" else "static"
        given["quantization_config"] = {"quant_method": "fp8", "activation_scheme": dynamic}
    elif method == "compressed-tensors":
        given["quantization_config"] = {**scheme.data, "quant_method": method}
    else:
        raise read.error("quantization", f"is not one that vLLM knows: {shown(dict(scheme.data))}")


def _one_expert(given: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for the MLPs of a model with latent attention and no experts."""
    ones = ("num_experts", "route_every_n", "num_shared_experts", "num_experts_per_tok", "num_expert_groups")
    return {
        **dict.fromkeys((*ones, "num_expert_groups_per_tok"), 1),
        "first_k_dense_replace": given.get("num_hidden_layers"),
        "expert_hidden_dim": given.get("intermediate_size"),
        "routed_scale": 1.0,
    }


def _architecture(read: Config, given: dict[str, Any]) -> str:
    experts = read.section("moe") if given.get("moe") else None
    if given["model_type"] != "transformer":
        raise Refused(f"{read.where}: model_type {shown(given['model_type'])} is not one that kvplan reads there.")
    if experts is None:
        return "MistralForCausalLM"
    if not experts.integer("num_shared_experts", 0, minimum=0):
        return "MixtralForCausalLM"
    for old, new in _EXPERTS.items():
        if old in experts.data:
            given[new] = experts.get(old)
    given["model_type"] = "deepseek_v3"
    scaling = read.section("llama_4_scaling")
    if scaling is None or not {"original_max_position_embeddings", "beta"} <= scaling.data.keys():
        raise read.error("llama_4_scaling", "must have original_max_position_embeddings and beta")
    return "MistralLarge3ForCausalLM"


def _yarn(read: Config, given: dict[str, Any]) -> None:
    yarn = read.section("yarn") if given.get("yarn") else None
    if yarn is None:
        return
    unknown = yarn.data.keys() - _YARN.keys() - {"apply_scale"}
    if unknown:
        raise read.error("yarn", f"has fields that vLLM does not know: {', '.join(sorted(unknown))}")
    rope: dict[str, Any] = {"rope_type": "yarn", "mscale_all_dim": 1}
    if given.get("rope_theta"):
        rope["rope_theta"] = given["rope_theta"]
    given.pop("rope_theta", None)
    rope.update((new, yarn.number(old)) for old, new in _YARN.items() if old in yarn)
    given["rope_parameters"] = rope


def _with_vision(given: dict[str, Any]) -> dict[str, Any]:
    """Pixtral's wrapper around the text model."""
    vision = given.pop("multimodal") if given.get("multimodal") else given.pop("vision_encoder")
    outer: dict[str, Any] = {
        "model_type": "pixtral",
        "architectures": ["PixtralForConditionalGeneration"],
        "text_config": given,
        "vision_config": vision,
    }
    if given.get("quantization_config"):
        outer["quantization_config"] = given["quantization_config"]
    return outer
