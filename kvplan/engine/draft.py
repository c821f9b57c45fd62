"""The drafter's checkpoint: the config that vLLM makes of it, and the method that it is for.

Source: vllm/config/speculative.py (`SpeculativeConfig.__post_init__`) and vllm/transformers_utils/configs/eagle.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engine import speculators
from kvplan.engine.args import ModelFacts, ResolvedModel
from kvplan.engine.facts import architectures, model_type, rope_parameters
from kvplan.engine.model import describe
from kvplan.engine.mtp import MTP_MODEL_TYPES, as_drafter
from kvplan.errors import Refused
from kvplan.hf.config import Config

_DSPARK_CLASSES = frozenset(
    ("Qwen3DSparkModel", "Qwen3OmniDSparkModel", "MuseSparkDSparkModel", "Gemma4DSparkModel", "K3DSparkModel")
)
_CACHE_ONLY_ROPE = frozenset(("default", "linear", "llama3", "ntk", "proportional"))
"""RoPE types whose max_position_embeddings only sizes a table, so that vLLM may raise it."""


def drafter_config(facts: ModelFacts) -> Config:
    """The drafter's config before the method is known."""
    root = facts.root
    if model_type(root) == "eagle":
        return root.replace(architectures=[_eagle_class(_nested_method(root), name) for name in architectures(root)])
    if speculators.is_speculators(root) and model_type(root) in ("", "speculators"):
        return speculators.as_drafter(root)
    return as_drafter(root)


def detect_method(given: str, model: ResolvedModel) -> str:
    """The drafting method: the given one where it names a drafter's kind, else what name and config say.

    ``given`` is `draft_model` where `--speculative-config` names no method. Refused where nothing fits.
    """
    if given in ("eagle", "eagle3", "dflash", "dspark"):
        return given
    name, classes = model.name.lower(), set(architectures(model.root))
    if "eagle-" in name:
        return "eagle"
    if "eagle3" in name:
        return "eagle3"
    if "dflash" in name or "MuseGlimmerAssistantModel" in classes:
        return "dflash"
    own_dspark = "DSparkDraftModel" in classes and model_type(model.root) == "qwen3"
    if "dspark" in name or classes & (_DSPARK_CLASSES - {"K3DSparkModel"}) or own_dspark:
        return "dspark"
    if model_type(model.root) in MTP_MODEL_TYPES:
        return "mtp"
    if given == "draft_model":
        return given
    raise Refused(
        f"--speculative-config method {given}: {model.root.where} (model type {model_type(model.root)}) has no such "
        "drafter; choose another method or model."
    )


def as_method(method: str, model: ResolvedModel, target: ResolvedModel, facts: ModelFacts) -> ResolvedModel:
    """The drafter after the method has renamed its class."""
    root, quantization = model.root, model.quantization
    if model_type(root) == "eagle" and method != _nested_method(root):
        raise Refused(
            f"--speculative-config method {method}: {root.where} is of model type eagle for method "
            f"{_nested_method(root)}; name that one."
        )
    if method in ("eagle", "eagle3", "dflash") and model_type(root) not in ("eagle", "speculators"):
        root = _eagle_config(method, root)
    elif method == "dspark":
        root, quantization = _dspark_config(model, target)
    if root is model.root:
        return model
    renamed = describe(facts, root, dtype=model.dtype, quantization=None)
    return renamed._replace(max_model_len=model.max_model_len, quantization=quantization)


def _eagle_config(method: str, root: Config) -> Config:
    return root.replace(
        architectures=[_eagle_class(method, name) for name in architectures(root)],
        model_type="eagle",
        model=dict(root.data),
    )


def _nested_method(root: Config) -> str:
    """The method that a config of model type eagle is for: it names the class before `--speculative-config` is read."""
    method = root.get("method", "eagle")
    if method not in ("eagle", "eagle3"):
        raise root.error("method", f"must be eagle or eagle3, got {method!r}")
    return str(method)


def _eagle_class(method: str, name: str) -> str:
    if method == "eagle":
        return name if name.startswith("Eagle") else f"Eagle{name}"
    if method == "eagle3":
        return name if name.startswith("Eagle3") or name.endswith("Eagle3") else f"Eagle3{name}"
    own = name.startswith("DFlash") or name.endswith("DFlash") or name == "LiLiCorrDraftModel"
    return name if own else f"DFlash{name}"


def _dspark_config(model: ResolvedModel, target: ResolvedModel) -> tuple[Config, str | None]:
    """DSpark drafters with a class of their own keep it; the others are stages inside a DeepSeek-V4 checkpoint."""
    root, classes = model.root, set(architectures(model.root))
    if "DSparkDraftModel" in classes and model_type(root) == "qwen3":
        return root.replace(architectures=["Qwen3DSparkModel"]), model.quantization
    if classes & _DSPARK_CLASSES:
        if "Gemma4DSparkModel" in classes and root.get("dspark_target_layer_ids") is None:
            return root.replace(dspark_target_layer_ids=root.get("target_layer_ids")), model.quantization
        return root, model.quantization
    v41 = model_type(target.root) == "deepseek_v41"
    kind, name = ("deepseek_v41", "DSparkV41DraftModel") if v41 else ("deepseek_v4", "DSparkDraftModel")
    return root.replace(model_type=kind, architectures=[name]), target.quantization


def shares_target_positions(method: str, root: Config) -> bool:
    """Whether vLLM raises the drafter's max_position_embeddings to the target's length."""
    return method != "draft_model" and all(rope["rope_type"] in _CACHE_ONLY_ROPE for rope in rope_parameters(root))


def has_non_causal_layer(config: Config) -> bool:
    """Whether the drafter needs a backend with bidirectional attention.

    The config's word counts, else only its sliding layers attend causally (`_dflash_layer_causal` of
    vllm/model_executor/models/qwen3_dflash.py).
    """
    layers = config.integer("num_hidden_layers", minimum=0, maximum=20_000)
    dflash = config.get("dflash_config")
    said = dflash.get("causal") if isinstance(dflash, Mapping) else None
    for value in (config.get("is_causal"), said):
        if value is not None:
            return layers > 0 and not value
    types = config.texts("layer_types") if config.get("layer_types") else []
    if types and len(types) < layers:
        raise config.error("layer_types", f"must have {layers} entries, got {len(types)}")
    return layers > 0 and (not types or any(t != "sliding_attention" for t in types[:layers]))
