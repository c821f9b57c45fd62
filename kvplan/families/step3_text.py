"""Step 3's text model: all query heads share one KV head (vLLM: model_executor/models/step3_text.py)."""

from __future__ import annotations

from kvplan.families.common import require, uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Step3TextForCausalLM",)

_WHY = ("head_dim", "model_executor/models/step3_text.py, Step3TextAttention")


def layers(model: Model) -> list[Layer]:
    config = model.config
    if model.engine.pipeline_parallel_size > 1:
        require(config, "tie_word_embeddings")  # the last stage asks for it, and the config class has no default
    config.optional_text("moe_layers_enum")  # the model class splits it at commas, which its own default does not allow
    return uniform_gqa(model, _WHY, prefix="", head_size=config.integer("head_dim"), num_kv_heads=1)
