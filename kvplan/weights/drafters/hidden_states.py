"""extract_hidden_states: cache layers without weights (vLLM: model_executor/models/extract_hidden_states.py)."""

from __future__ import annotations

from kvplan.weights.builder import Builder
from kvplan.weights.own import Own

ARCHITECTURES = ("ExtractHiddenStatesModel",)
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    b.attention(f"cache_only_layers.{b.model.start_layer}")
