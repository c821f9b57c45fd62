"""K-EXAONE: sliding layers, whose windows may differ, with a full layer every few.

vLLM: model_executor/models/exaone_moe.py (ExaoneMoeAttention).
"""

from __future__ import annotations

from kvplan.families.common import num_layers, uniform_gqa
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM")

_WHY = ("layer_types, sliding_window", "model_executor/models/exaone_moe.py, ExaoneMoeAttention")


def windows(config: Config, count: int, kinds: str = "layer_types", own: str = "sliding_windows") -> list[int | None]:
    """Each layer's window: none where its kind is full, else its own or the config's."""
    types = config.texts(kinds)
    sizes = config.sequence(own) if config.get(own) is not None else None
    if len(types) < count or (sizes is not None and len(sizes) < count):
        raise config.error(kinds, f"and {own} must have an entry for each of {count} layers")
    found: list[int | None] = []
    for i, kind in enumerate(types[:count]):
        if kind == "full_attention":
            found.append(None)
        elif sizes is not None:
            found.append(config.checked_integer(f"{own}[{i}]", sizes[i]))
        else:
            found.append(config.integer("sliding_window"))
    return found


def layers(model: Model) -> list[Layer]:
    return uniform_gqa(model, _WHY, windows=windows(model.config, num_layers(model.config)))
