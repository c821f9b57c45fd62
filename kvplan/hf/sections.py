"""A config's two parts as vLLM takes them, and where the text model's part lies."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.hf.config import Config

TEXT_SECTIONS = ("text_encoder", "decoder", "generator", "text_config")
"""Where Transformers' `get_text_config` looks for the text model."""


class Reading(NamedTuple):
    """A config as vLLM sees it."""

    root: Config
    """The whole config.json (``hf_config``)."""
    text: Config
    """The text model's part (``hf_text_config``); ``root`` itself where there is none."""
