"""From a parsed config.json to the two configs that vLLM works with: the whole one and its text model's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.errors import KvplanError, Refused
from kvplan.hf import rules
from kvplan.hf.config import Config, shown
from kvplan.hf.defaults import entry
from kvplan.hf.draft import Draft
from kvplan.sources.source import Source

PLAIN = frozenset(
    (
        "deci",
        "internlm2",
        "internlm3",
        "medusa",
        "mimo",
        "mimo_v2",
        "mimo_v2_omni",
        "minimax_m1",
        "mlp_speculator",
        "nemotron-nas",
        "phi3_v",
    )
)
"""Model types whose class is code of the checkpoint's repository: never run, so the file's own fields are all."""

TEXT_SECTIONS = ("text_encoder", "decoder", "generator", "text_config")
"""Where Transformers' `get_text_config` looks for the text model."""

ARCHITECTURE_TYPES = {"LongcatFlashForCausalLM": "longcat_flash", "LongcatFlashNgramForCausalLM": "longcat_flash"}
"""Model types of checkpoints that name none (vLLM's transformers_utils/config.py)."""


class Reading(NamedTuple):
    """A config as vLLM sees it."""

    root: Config
    """The whole config.json (``hf_config``)."""
    text: Config
    """The text model's part (``hf_text_config``); ``root`` itself where there is none."""


def read(source: Source, overrides: Mapping[str, Any] | None = None) -> Reading:
    """The config of a target with the defaults and computations of its Hugging Face config class.

    ``overrides`` are `--hf-overrides`: set after everything the class computes, as vLLM sets them. KvplanError where a
    field cannot be used, Refused where the model type is unknown.
    """
    model_type = _model_type(source)
    if overrides and isinstance(overrides.get("model_type"), str):
        model_type = overrides["model_type"]
    if model_type is None:
        raise KvplanError(f"{source.where}: model_type is missing; add it as the published config has it.")
    return _overridden(_read(source.config, source.where, model_type), overrides or {})


def read_drafter(source: Source) -> Reading:
    """The config of a drafter: as `read`, but a type of its own (speculators format, none at all) is no error."""
    from kvplan.hf import speculators

    model_type = _model_type(source)
    if speculators.is_speculators(source.config):
        return speculators.read(source)
    if model_type is None or (entry(model_type) is None and model_type not in PLAIN):
        return _split(_section(source.config, source.where, None))
    return _read(source.config, source.where, model_type)


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
    if entry(model_type) is None and model_type not in PLAIN:
        from kvplan.hf import transformers_class

        return transformers_class.read(config, where, model_type)
    return _split(_section(config, where, model_type))


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
    line = entry(model_type) if model_type is not None else None
    known: Mapping[str, Any] = line or {}
    draft = Draft(config, where, known.get("defaults", {}), known.get("aliases", {}))
    if model_type is not None:
        draft.put("model_type", model_type)
    if "llm_config" in draft and "text_config" not in draft:
        draft.put("text_config", draft.get("llm_config"))
    sections = _nested(draft, known.get("sections", {}))
    if draft.lacks("dtype") and not draft.lacks("torch_dtype"):
        draft.put("dtype", draft.get("torch_dtype"))
    rules.apply(model_type or "", draft)
    return draft.frozen(sections)


_RENAMED_TYPES = {"kimi_k2": "deepseek_v3"}
"""Model types that a nested config may have under an older name."""


def _nested(draft: Draft, known: Mapping[str, Any]) -> dict[str, Config]:
    """The nested text configs. One that the class always has exists also where the file has none."""
    out: dict[str, Config] = {}
    for key, (model_type, named_by_file) in known.items():
        value = draft.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise draft.error(key, f"must be a JSON object, got {shown(value)}")
        given = (value or {}).get("model_type") if named_by_file else None
        given = given if isinstance(given, str) else model_type
        out[key] = _section(value or {}, f"{draft.where}: {key}", _RENAMED_TYPES.get(given, given))
        draft.put(key, out[key].data)
    for key in TEXT_SECTIONS:
        value = draft.get(key)
        if key not in out and isinstance(value, Mapping):
            given = value.get("model_type")
            out[key] = _section(value, f"{draft.where}: {key}", given if isinstance(given, str) else None)
    return out


def _overridden(reading: Reading, overrides: Mapping[str, Any]) -> Reading:
    """``--hf-overrides``: fields of the whole config; an object for the text section is that section's fields."""
    if not overrides:
        return reading
    root, text = reading
    flat = {key: value for key, value in overrides.items() if key not in root.sections}
    sections = {
        key: section.replace(**overrides[key]) if isinstance(overrides.get(key), Mapping) else section
        for key, section in root.sections.items()
    }
    new = root.replace(**flat)
    new = Config(new.data, new.where, new.defaults, new.aliases, sections)
    if text is root:
        return Reading(new, new)
    return Reading(new, next(sections[key] for key, section in root.sections.items() if section is text))
