"""Encoders of images and audio, one file per kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.hf.config import Config


def section(root: Config, key: str, defaults: Mapping[str, Any]) -> Config:
    """An encoder's config with the defaults of its class; all defaults where the file has none."""
    found = root.section(key, defaults)
    return Config({}, f"{root.where}: {key}", defaults) if found is None else found
