"""Command R and Command A (Cohere, Cohere 2, Cohere 2 MoE): in Cohere 2 three sliding layers to one full layer.

vLLM: model_executor/models/commandr.py (CohereAttention), cohere2_moe.py (Cohere2MoeAttention).
"""

from __future__ import annotations

from kvplan.families.common import divided_head_dim, num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("CohereForCausalLM", "Cohere2ForCausalLM", "Cohere2MoeForCausalLM")

_FULL = ("num_key_value_heads, head_dim", "model_executor/models/commandr.py, CohereAttention")
_INTERLEAVED = ("layer_types, sliding_window", "model_executor/models/commandr.py, CohereAttention")


def layers(model: Model) -> list[Layer]:
    """The class of the config, not the architecture, tells the two apart. A window counts the query's own token too."""
    config = model.config
    size = config.integer("head_dim") if "head_dim" in config else divided_head_dim(config)
    if config.get("model_type") == "cohere":
        return uniform_gqa(model, _FULL, head_size=size)
    config.sequence("layer_types")
    windows = [window and window + 1 for window in windows_by_layer_type(config, num_layers(config))]
    if "sliding_attention" in config.texts("layer_types"):
        config.integer("sliding_window")
    return uniform_gqa(model, _INTERLEAVED, head_size=size, windows=windows)
