"""Values that decide no cache and keep vLLM from building the model, or from configuring it."""

from __future__ import annotations

from kvplan.hf.config import MAXIMUM, Config, shown

_SIZES = ("hidden_size", "intermediate_size", "moe_intermediate_size", "vocab_size")
"""Fields of which every model class makes the shapes of its weights."""


def check_values(root: Config, text: Config) -> None:
    """KvplanError for a size that is no size, and for an is_encoder_decoder that pydantic takes for no boolean."""
    for key in _SIZES:
        value = text.get(key)
        if isinstance(value, (int, float)) and not (isinstance(value, int) and 0 <= value <= MAXIMUM):
            raise text.error(key, f"must be an integer between 0 and {MAXIMUM}, got {shown(value)}")
    for config in (root, text):
        value = config.get("is_encoder_decoder")
        if value is not None and value not in (True, False):
            raise config.error("is_encoder_decoder", f"must be true or false, got {shown(value)}")
