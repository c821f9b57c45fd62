"""Model types that the table lacks: transformers' own class tells the defaults, without any remote code."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from kvplan.errors import KvplanError, Refused
from kvplan.hf.config import MAXIMUM_LAYERS, Config, shown
from kvplan.hf.sections import TEXT_SECTIONS, Reading


def read(config: Mapping[str, Any], where: str, model_type: str) -> Reading:
    """The config read by the class that transformers has for the model type. Refused where it has none."""
    mapping = _mapping(where, model_type)
    if model_type not in mapping:
        raise Refused(f"{where}: model type {model_type!r} is unknown to kvplan and to the installed transformers.")
    _check_counts(config, where)
    try:
        whole = mapping[model_type].from_dict(dict(config))
        text = whole.get_text_config()
        root = _plain(whole, where)
        if text is whole:
            return Reading(root, root)
        part = _plain(text, f"{where}: text model")
        return Reading(_holding(root, part), part)
    except Exception as error:  # a config class may raise anything on a file that is not of its kind
        raise KvplanError(f"{where}: transformers cannot read it as {model_type} ({_first_line(error)}).") from None


def _mapping(where: str, model_type: str) -> Any:
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # no word about the missing PyTorch
    try:
        import transformers
    except ImportError:
        raise Refused(
            f"{where}: model type {model_type!r} is not in kvplan's table, and transformers is not installed to ask."
        ) from None
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return transformers.CONFIG_MAPPING


def _check_counts(config: Mapping[str, Any], where: str) -> None:
    """Classes make lists of these lengths without asking."""
    for key, value in config.items():
        if "layer" in key and isinstance(value, (int, float)) and value > MAXIMUM_LAYERS:
            raise KvplanError(f"{where}: {key} must be at most {MAXIMUM_LAYERS}, got {shown(value)}.")
        if isinstance(value, Mapping):
            _check_counts(value, f"{where}: {key}")


def _plain(config: Any, where: str) -> Config:
    values: dict[str, Any] = config.to_dict()
    return Config(values, where, aliases=config.attribute_map)


def _holding(root: Config, text: Config) -> Config:
    """The whole config with the text model's under the usual key: some classes keep it deeper."""
    key = next((key for key in TEXT_SECTIONS if root.get(key) is not None), "text_config")
    return Config({**root.data, key: text.data}, root.where, aliases=root.aliases, sections={key: text})


def _first_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__).rstrip(".")[:200]
