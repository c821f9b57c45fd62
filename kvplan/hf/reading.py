"""From a parsed config.json to the two configs that vLLM works with: the whole one and its text model's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import KvplanError, Refused
from kvplan.hf import classes, rules
from kvplan.hf.config import Config, shown
from kvplan.hf.defaults import entry
from kvplan.hf.draft import Draft
from kvplan.hf.sections import TEXT_SECTIONS, Reading
from kvplan.sources.source import Source

PLAIN = frozenset(
    (
        "deci",
        "deepseek",
        "exaone",
        "internlm2",
        "internlm3",
        "internvl_chat",
        "iquestcoder",
        "medusa",
        "mimo",
        "mimo_v2",
        "mimo_v2_omni",
        "minicpm",
        "minimax_m1",
        "mlp_speculator",
        "nemotron-nas",
        "orion",
        "param2moe",
        "pangu_ultra_moe",
        "phi3_v",
        "solar",
        "telechat3",
        "transformer",
    )
)
"""Model types whose class is code of the checkpoint's repository, never run, or that have none (`transformer`, of
Mistral's own format): the file's own fields are all."""

_PLAIN_ALIASES = {"exaone": {"num_hidden_layers": "num_layers"}}
"""Names that such a class has for a field of its own."""

ARCHITECTURE_TYPES = {"LongcatFlashForCausalLM": "longcat_flash", "LongcatFlashNgramForCausalLM": "longcat_flash"}
"""Model types of checkpoints that name none (vLLM's transformers_utils/config.py)."""


def read(source: Source, model_type: str | None = None) -> Reading:
    """The config of a target with the defaults and computations of its Hugging Face config class.

    ``model_type`` stands in for the file's own, as `--hf-overrides` of it does. KvplanError where a field cannot be
    used, Refused where the model type is unknown.
    """
    model_type = model_type or _model_type(source)
    if model_type is None:
        raise KvplanError(f"{source.where}: model_type is missing; add it as the published config has it.")
    config = (
        source.config if model_type == source.config.get("model_type") else {**source.config, "model_type": model_type}
    )
    return _read(config, source.where, model_type)


def read_drafter(source: Source) -> Reading:
    """The config of a drafter: as `read`, but a model type that nobody knows, or none, is no error.

    Such a config, and one in the speculators format, has no class: the file's own fields are all there is.
    """
    model_type = _model_type(source)
    if model_type == "eagle":
        return _nested_eagle(source)
    if model_type is None or not _known(model_type):
        return _split(_section(source.config, source.where, None))
    return _read(source.config, source.where, model_type)


_OF_THE_WRAPPER = ("architectures", "model", "model_type", "method", "truncated_vocab_size")


def _nested_eagle(source: Source) -> Reading:
    """vLLM's EAGLEConfig (transformers_utils/configs/eagle.py): the fields of the model inside, among the file's own.

    Refused where a field outside would change one that the inner model's class has read already.
    """
    inner = source.config.get("model")
    if not isinstance(inner, Mapping) or not isinstance(inner.get("model_type"), str):
        raise KvplanError(f"{source.where}: model must be the config of the drafter's layers, with its model_type.")
    known = entry(inner["model_type"])
    if known is None or not known["from"].startswith("transformers"):
        raise Refused(f"{source.where}: model: model type {inner['model_type']!r} is not one that kvplan reads.")
    outside = {key: value for key, value in source.config.items() if key not in _OF_THE_WRAPPER}
    for key, value in outside.items():
        if key not in ("dtype", "torch_dtype") and key in {**known["defaults"], **inner} and inner.get(key) != value:
            raise Refused(f"{source.where}: {key} differs from that of model; write it there only.")
    root = _section({**outside, **inner}, source.where, inner["model_type"])
    own = {key: source.config.get(key) for key in ("model", "method") if key in source.config}
    return _split(root.replace(model_type="eagle", **own))


def _model_type(source: Source) -> str | None:
    value = source.config.get("model_type")
    if value is not None and not isinstance(value, str):
        raise KvplanError(f"{source.where}: model_type must be a string, got {shown(value)}.")
    if value is None:
        architectures = source.config.get("architectures")
        first = architectures[0] if isinstance(architectures, list) and architectures else None
        return ARCHITECTURE_TYPES.get(first) if isinstance(first, str) else None
    return value


def _read(config: Mapping[str, Any], where: str, model_type: str) -> Reading:
    if model_type == "mistral" and "layer_types" in config:  # as transformers' AutoConfig does
        model_type, config = "ministral", {**config, "model_type": "ministral"}
    if not _known(model_type):
        from kvplan.hf import transformers_class

        return transformers_class.read(config, where, model_type)
    return _split(_section(config, where, model_type))


def _known(model_type: str) -> bool:
    return model_type in PLAIN or entry(model_type) is not None


def _split(root: Config) -> Reading:
    """vLLM's `get_hf_text_config`: the one text section of the config, else the config itself."""
    found = [key for key in TEXT_SECTIONS if root.get(key) is not None]
    if len(found) > 1:
        raise Refused(
            f"{root.where}: has several text models ({', '.join(found)}); vLLM cannot tell which one to serve."
        )
    text = root.section(found[0]) if found else None
    if text is not None and "num_attention_heads" not in text:
        raise text.error("num_attention_heads", "is missing, so vLLM does not take it for a text model")
    return Reading(root, root if text is None else text)


def _section(config: Mapping[str, Any], where: str, model_type: str | None) -> Config:
    """One JSON object of a model type, with its class's defaults, computations and nested configs."""
    known = (entry(model_type) if model_type is not None else None) or {}
    draft = Draft(
        config, where, known.get("defaults", {}), known.get("aliases") or _PLAIN_ALIASES.get(model_type or "", {})
    )
    if model_type is not None and draft.lacks("model_type"):
        draft.put("model_type", model_type)
    if "llm_config" in draft and "text_config" not in draft:
        draft.put("text_config", draft.get("llm_config"))
    sections = _nested(draft, model_type, known)
    if draft.lacks("dtype") and not draft.lacks("torch_dtype"):
        draft.put("dtype", draft.get("torch_dtype"))
    rules.apply(model_type or "", draft, known)
    return draft.frozen(classes.apply_to_sections(model_type or "", sections))


_RENAMED_TYPES = {"exaone4_5_text": "exaone4", "kimi_k2": "deepseek_v3"}
"""Model types that a nested config may have under an older name."""


def _nested(draft: Draft, model_type: str | None, known: Mapping[str, Any]) -> dict[str, Config]:
    """The nested text configs. One that the class always has exists also where the file has none."""
    out: dict[str, Config] = {}
    for key, (usual_type, named_by_file, usual) in known.get("sections", {}).items():
        value = draft.get(key)
        if value is None:
            value = _flat(draft, model_type, known, usual_type) or usual
        if not isinstance(value, Mapping):
            raise draft.error(key, f"must be a JSON object, got {shown(value)}")
        out[key] = _known_section(value, f"{draft.where}: {key}", usual_type, named_by_file)
        draft.put(key, out[key].data)
    for key in TEXT_SECTIONS:
        value = draft.get(key)
        if key not in out and isinstance(value, Mapping):
            given = value.get("model_type")
            out[key] = _section(value, f"{draft.where}: {key}", given if isinstance(given, str) else None)
    return out


def _known_section(value: Mapping[str, Any], where: str, usual_type: str, named_by_file: bool) -> Config:
    """A nested config that its parent's class builds; the file's own type counts where the class lets it."""
    given = value.get("model_type") if named_by_file else None
    if not isinstance(given, str):
        return _section(value, where, usual_type)
    if given in _RENAMED_TYPES:
        given = _RENAMED_TYPES[given]
        value = {**value, "model_type": given}
    if not _known(given):
        raise Refused(f"{where}: model type {given!r} is not one that kvplan reads.")
    return _section(value, where, given)


_FLAT = ("qwen2_vl", "qwen2_5_vl", "glm5_next")
"""Composite classes that take the text model's fields from the top level where the file has no text section."""


def _flat(draft: Draft, model_type: str | None, known: Mapping[str, Any], text_type: str) -> dict[str, Any]:
    """The text model's fields of a flat file. Qwen's classes move them, GLM's copies them."""
    if model_type not in _FLAT:
        return {}
    own = {name for names in known["fields"].values() for name in names.split()}
    rest = [key for key in draft.data if key not in own and key != "model_type"]
    if model_type == "glm5_next":
        return {key: draft.get(key) for key in rest}
    text = entry(text_type) or {}
    wanted = {name for names in text["fields"].values() for name in names.split()}
    wanted |= {"rope_parameters", "rope_scaling", "rope_theta"}
    moved = {key: draft.drop(key) for key in rest if key in wanted}
    moved["dtype"] = draft.get("torch_dtype")
    return moved
