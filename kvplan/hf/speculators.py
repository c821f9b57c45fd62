"""Drafters in the format of the speculators library: the layer's config nested, the algorithm's fields beside it.

What vLLM makes of it: transformers_utils/configs/speculators/{base,algos}.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvplan.errors import KvplanError, Refused
from kvplan.hf.config import Config, shown
from kvplan.hf.draft import Draft
from kvplan.sources.source import Source

if TYPE_CHECKING:
    from kvplan.hf.reading import Reading

_ARCHITECTURES = {
    "eagle3": {"qwen3": "Eagle3Qwen3ForCausalLM", "llama": "Eagle3LlamaForCausalLM"},
    "peagle": {"qwen3": "PeagleQwen3ForCausalLM", "llama": "PeagleLlamaForCausalLM"},
}
_DFLASH2_FIELDS = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
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
_DSPARK_ARCHITECTURES = ("Qwen3DSparkModel", "Qwen3OmniDSparkModel")


def is_speculators(config: Mapping[str, Any]) -> bool:
    """Whether vLLM reads the config in this format."""
    model_type = config.get("model_type")
    return model_type == "speculators" or (model_type is None and config.get("speculators_config") is not None)


def read(source: Source) -> Reading:
    """The drafter's config as vLLM unpacks it: no config class, so no defaults beyond the file's own values."""
    from kvplan.hf.reading import Reading

    outer = Config(source.config, source.where)
    algorithm = outer.text("speculators_model_type")
    layer = outer.section("transformer_layer_config")
    values = dict(layer.data) if layer is not None else {}
    values.update(_fields(outer, algorithm, values))
    values["model_type"] = "speculators"
    draft = Draft(values, source.where, {}, {})
    if draft.lacks("dtype") and not draft.lacks("torch_dtype"):
        draft.put("dtype", draft.get("torch_dtype"))
    root = draft.frozen()
    return Reading(root, root)


def _fields(outer: Config, algorithm: str, layer: Mapping[str, Any]) -> dict[str, Any]:
    if algorithm in _ARCHITECTURES:
        return _eagle(outer, algorithm, layer)
    if algorithm in ("dflash", "dflash2"):
        return _dflash(outer, algorithm)
    if algorithm == "dspark":
        return _dspark(outer)
    raise Refused(
        f"{outer.where}: speculators_model_type must be one of dflash, dflash2, dspark, eagle3, peagle, "
        f"got {shown(algorithm)}."
    )


def _eagle(outer: Config, algorithm: str, layer: Mapping[str, Any]) -> dict[str, Any]:
    names = _ARCHITECTURES[algorithm]
    model_type = layer.get("model_type", "llama")
    if model_type not in names:
        raise Refused(f"{outer.where}: vLLM drafts with {algorithm} layers of qwen3 or llama, got {shown(model_type)}.")
    out = {"architectures": [names[model_type]], "draft_vocab_size": outer.get("draft_vocab_size")}
    _copy(outer, out, "target_hidden_size")
    if outer.get("eagle_aux_hidden_state_layer_ids"):
        _copy(outer, out, "eagle_aux_hidden_state_layer_ids")
    if algorithm == "peagle":
        out["pard_token"] = outer.integer("mask_token_id", minimum=0)
    return out


def _dflash(outer: Config, algorithm: str) -> dict[str, Any]:
    auxiliary = outer.integers("aux_hidden_state_layer_ids")
    section: dict[str, Any] = {
        "mask_token_id": outer.integer("mask_token_id", minimum=0),
        "target_layer_ids": [i - 1 for i in auxiliary],
        "sample_from_anchor": outer.get("sample_from_anchor", False),
        "causal": not outer.get("sliding_window_non_causal", True),
    }
    out = {
        "architectures": ["DFlash2DraftModel" if algorithm == "dflash2" else "DFlashDraftModel"],
        "draft_vocab_size": outer.get("draft_vocab_size"),
        "eagle_aux_hidden_state_layer_ids": auxiliary,
        "dflash_config": section,
    }
    _copy(outer, out, "target_hidden_size")
    if algorithm == "dflash2":
        _copy(outer, section, *_DFLASH2_FIELDS)
    return out


def _dspark(outer: Config) -> dict[str, Any]:
    auxiliary = outer.integers("aux_hidden_state_layer_ids")
    anchor = outer.get("sample_from_anchor", False)
    named = [name for name in outer.sequence("architectures", []) if name in _DSPARK_ARCHITECTURES]
    out = {
        "architectures": named or ["Qwen3DSparkModel"],
        "sample_from_anchor": anchor,
        "dspark_bonus_anchor": not anchor,
        "eagle_aux_hidden_state_layer_ids": auxiliary,
        "target_layer_ids": [i - 1 for i in auxiliary],
    }
    _copy(outer, out, *_DSPARK_FIELDS)
    return out


def _copy(outer: Config, out: dict[str, Any], *keys: str) -> None:
    out.update({key: outer.get(key) for key in keys if outer.get(key) is not None})


def proposal(source: Source) -> tuple[str, str, int]:
    """What a speculators config itself asks for: (method, verifier's id, number of speculative tokens)."""
    outer = Config(source.config, source.where)
    section = outer.section("speculators_config")
    methods = section.objects("proposal_methods") if section is not None else []
    verifier = section.section("verifier") if section is not None else None
    if not methods or verifier is None:
        raise KvplanError(f"{source.where}: speculators_config lacks proposal_methods or the verifier.")
    method = outer.text("speculators_model_type")
    method = {"peagle": "eagle3", "dflash2": "dflash"}.get(method, method)
    return method, verifier.text("name_or_path"), methods[0].integer("speculative_tokens")
