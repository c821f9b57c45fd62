"""Values that decide no cache and keep vLLM from building the model, or from configuring it."""

from __future__ import annotations

from kvplan.hf.config import MAXIMUM, Config, shown

_SIZES = {"hidden_size": 1, "intermediate_size": 0, "moe_intermediate_size": 0, "vocab_size": 1}
"""Fields of which every model class makes the shapes of its weights, and the least that they can be."""


def check_values(root: Config, text: Config) -> None:
    """KvplanError for a size that is no size, and for an is_encoder_decoder that pydantic takes for no boolean."""
    for key, least in _SIZES.items():
        value = text.get(key)
        if isinstance(value, (int, float)) and not (isinstance(value, int) and least <= value <= MAXIMUM):
            raise text.error(key, f"must be an integer between {least} and {MAXIMUM:,}, got {shown(value)}")
    for config in (root, text):
        value = config.get("is_encoder_decoder")
        if value is not None and value not in (True, False):
            raise config.error("is_encoder_decoder", f"must be true or false, got {shown(value)}")
