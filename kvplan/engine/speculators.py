"""Drafters in the speculators format: what their config means to vLLM.

Source: vllm/transformers_utils/configs/speculators (base.py, algos.py) and `maybe_override_with_speculators` of
vllm/transformers_utils/config.py.
"""

from __future__ import annotations

from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.errors import Refused
from kvplan.hf.config import Config

_EAGLE3 = {"qwen3": "Eagle3Qwen3ForCausalLM", "llama": "Eagle3LlamaForCausalLM"}
_PEAGLE = {"qwen3": "PeagleQwen3ForCausalLM", "llama": "PeagleLlamaForCausalLM"}
_TYPES = ("eagle3", "peagle", "dflash", "dflash2", "dspark")
_METHODS = {"peagle": "eagle3", "dflash2": "dflash"}


def is_speculators(root: Config) -> bool:
    """Whether the config is in the speculators format, so that it names the target it drafts for."""
    return root.get("speculators_config") is not None


def verifier(root: Config) -> str:
    """The id of the target that the drafter was made for."""
    section = root.section("speculators_config")
    named = None if section is None else section.section("verifier")
    if named is None:
        raise root.error("speculators_config", "names no verifier")
    return named.text("name_or_path")


def speculative_config(root: Config) -> dict[str, Any]:
    """The `--speculative-config` that serving the drafter itself implies: its method and number of tokens."""
    kind = _speculator_type(root)
    section = root.section("speculators_config")
    methods = [] if section is None else section.objects("proposal_methods", ())
    if not methods:
        raise root.error("speculators_config", "has no proposal_methods")
    out: dict[str, Any] = {
        "method": _METHODS.get(kind, kind),
        "num_speculative_tokens": methods[0].integer("speculative_tokens"),
    }
    if kind == "peagle":
        out["parallel_drafting"] = True
    return out


def redirect(args: EngineArgs, root: Config) -> EngineArgs:
    """The flags that serving a speculators drafter as the model stands for: its target, with it as the drafter.

    Keys of `--speculative-config` that the user gave win, except method and model.
    """
    implied = speculative_config(root)
    given = {key.replace("-", "_"): value for key, value in (args.speculative_config or {}).items()}
    options = {**implied, **given, "method": implied["method"], "model": args.model}
    return args._replace(model=verifier(root), speculative_config=options)


def _speculator_type(root: Config) -> str:
    kind = root.text("speculators_model_type")
    if kind not in _TYPES:
        raise Refused(f"{root.where}: speculators_model_type {kind} is not one of {', '.join(_TYPES)}.")
    return kind


def as_drafter(root: Config) -> Config:
    """The drafter's config as vLLM's model class sees it: the transformer layer's with the method's fields."""
    layer = root.section("transformer_layer_config")
    if layer is None:
        raise root.error("transformer_layer_config", "is missing")
    kind = _speculator_type(root)
    _require(layer)
    if kind in ("eagle3", "peagle"):
        updates = _eagle3(root, layer, kind)
    elif kind == "dspark":
        updates = _dspark(root)
    else:
        updates = _dflash(root, kind)
    return layer.replace(**updates, model_type="speculators")


_REQUIRED = ("hidden_act", "rms_norm_eps", "intermediate_size", "vocab_size", "max_position_embeddings")
"""Fields of the transformer layer that the model classes read and no config class has a default for."""


def _require(layer: Config) -> None:
    """KvplanError without a field that every class reads. A Llama's length has a default in its class."""
    for key in _REQUIRED[: 4 if layer.get("model_type") == "llama" else 5]:
        if key not in layer:
            raise layer.error(key, "is missing, and vLLM cannot build the drafter without it")


def _eagle3(root: Config, layer: Config, kind: str) -> dict[str, Any]:
    classes = _EAGLE3 if kind == "eagle3" else _PEAGLE
    inner = layer.text("model_type", "llama")
    if inner not in classes:
        raise Refused(f"{root.where}: transformer_layer_config: model_type {inner!r} is not {' or '.join(classes)}.")
    updates = {"architectures": [classes[inner]], "draft_vocab_size": root.get("draft_vocab_size"), **_width(root)}
    if kind == "peagle":
        updates["pard_token"] = root.integer("mask_token_id", minimum=0)
    layers = root.get("eagle_aux_hidden_state_layer_ids")
    if layers:
        updates["eagle_aux_hidden_state_layer_ids"] = layers
    return updates


def _dflash(root: Config, kind: str) -> dict[str, Any]:
    layers = root.integers("aux_hidden_state_layer_ids", minimum=-1)
    dflash: dict[str, Any] = {
        "mask_token_id": root.integer("mask_token_id", minimum=0),
        "target_layer_ids": [i - 1 for i in layers],
        "sample_from_anchor": root.get("sample_from_anchor", False),
        "causal": not root.truthy("sliding_window_non_causal", True),
    }
    if kind == "dflash2":
        for key in ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"):
            if root.get(key) is not None:
                dflash[key] = root.get(key)
    return {
        "architectures": ["DFlash2DraftModel" if kind == "dflash2" else "DFlashDraftModel"],
        "draft_vocab_size": root.get("draft_vocab_size"),
        "eagle_aux_hidden_state_layer_ids": layers,
        "dflash_config": dflash,
        **_width(root),
    }


def _width(root: Config) -> dict[str, Any]:
    """The width of the target's hidden states, where it is not the drafter's."""
    width = root.get("target_hidden_size")
    return {} if width is None else {"target_hidden_size": width}


_DSPARK_FIELDS = (
    "draft_vocab_size",
    "target_hidden_size",
    "mask_token_id",
    "markov_rank",
    "markov_head_type",
    "block_size",
    "enable_confidence_head",
    "confidence_head_with_markov",
    "use_aux_hidden_state",
)


def _dspark(root: Config) -> dict[str, Any]:
    named = [a for a in root.texts("architectures", ()) if a in ("Qwen3DSparkModel", "Qwen3OmniDSparkModel")]
    layers = root.integers("aux_hidden_state_layer_ids", minimum=-1)
    anchor = root.truthy("sample_from_anchor")
    updates: dict[str, Any] = {
        "architectures": named or ["Qwen3DSparkModel"],
        "sample_from_anchor": anchor,
        "dspark_bonus_anchor": not anchor,
        "eagle_aux_hidden_state_layer_ids": layers,
        "target_layer_ids": [i - 1 for i in layers],
    }
    return {**updates, **{key: root.get(key) for key in _DSPARK_FIELDS if root.get(key) is not None}}
