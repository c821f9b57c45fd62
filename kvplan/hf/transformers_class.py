"""Model types that the table lacks: transformers' own class tells the defaults, without any remote code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvplan.errors import KvplanError, Refused
from kvplan.hf.config import Config

if TYPE_CHECKING:
    from kvplan.hf.reading import Reading


def read(config: Mapping[str, Any], where: str, model_type: str) -> Reading:
    """The config read by the class that transformers has for the model type. Refused where it has none."""
    from kvplan.hf.reading import Reading

    try:
        from transformers import CONFIG_MAPPING
    except ImportError:
        raise Refused(
            f"{where}: model type {model_type!r} is not in kvplan's table, and transformers is not installed to ask."
        ) from None
    if model_type not in CONFIG_MAPPING:
        raise Refused(
            f"{where}: model type {model_type!r} is known neither to kvplan nor to the installed transformers."
        )
    try:
        whole = CONFIG_MAPPING[model_type].from_dict(dict(config))
        text = whole.get_text_config()
    except Exception as error:  # a config class may raise anything on a file that is not of its kind
        raise KvplanError(f"{where}: transformers cannot read it as {model_type} ({_first_line(error)}).") from None
    root = Config({**config, **_values(whole)}, where)
    if text is whole:
        return Reading(root, root)
    return Reading(root, Config(_values(text), f"{where}: text model"))


def _values(config: Any) -> dict[str, Any]:
    values: dict[str, Any] = config.to_dict()
    return values


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__).rstrip(".")[:200]
