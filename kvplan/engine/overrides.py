"""`--hf-overrides`: values put into the config as vLLM puts them.

Source: vllm/config/model.py (`ModelConfig.__post_init__`, `_apply_dict_overrides`, `_update_nested`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import Refused
from kvplan.hf.config import Config

_PLAIN = frozenset(("quantization_config", "compression_config", "generation_config", "dflash_config", "eagle_config"))
"""Objects that are no nested config of their own, although their key looks like it: an override replaces them."""


def apply_hf_overrides(root: Config, overrides: Mapping[str, Any] | None) -> Config:
    """The config with the overrides in it: nested configs are merged, any other object is replaced whole."""
    kind = (overrides or {}).get("model_type", root.get("model_type"))
    if kind != root.get("model_type"):
        raise Refused(
            f"--hf-overrides model_type {kind!r} changes how config.json is read; put it in the file instead."
        )
    for key, value in (overrides or {}).items():
        if isinstance(value, Mapping) and key.endswith("_config") and key not in _PLAIN:
            section = root.section(key)
            if section is None:
                raise Refused(f"--hf-overrides {key}: {root.where} has no such section; put the fields at the top.")
            merged = _merged(section, value)
            sections = {**root.sections, key: merged}
            root = Config({**root.data, key: merged.data}, root.where, root.defaults, root.aliases, sections)
        elif key in ("rope_scaling", "rope_parameters"):
            root = without(root, "rope_scaling", "rope_parameters").replace(rope_parameters=value)
        else:
            root = root.replace(**{key: value})
    return root


def _merged(section: Config, updates: Mapping[str, Any]) -> Config:
    for key, value in updates.items():
        old = section.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            value = _deep(old, value)
        section = section.replace(**{key: value})
    return section


def _deep(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(old)
    for key, value in new.items():
        before = out.get(key)
        out[key] = _deep(before, value) if isinstance(value, Mapping) and isinstance(before, Mapping) else value
    return out


def without(config: Config, *keys: str) -> Config:
    """The same config without ``keys``, neither in the file nor among the defaults."""
    return Config(
        {k: v for k, v in config.data.items() if k not in keys},
        config.where,
        {k: v for k, v in config.defaults.items() if k not in keys},
        config.aliases,
        {k: v for k, v in config.sections.items() if k not in keys},
    )
