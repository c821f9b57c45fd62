"""ERNIE 4.5 MoE: grouped-query attention in every layer (vLLM: model_executor/models/ernie45_moe.py)."""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import uniform_gqa
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Ernie4_5_MoeForCausalLM",)

_WHY = ("num_key_value_heads, head_dim", "model_executor/models/ernie45_moe.py, Ernie4_5_MoeAttention")


def layers(model: Model) -> list[Layer]:
    """Refused over pipeline stages with a tied head: the class looks for one on stages that have none."""
    stages = model.engine.pipeline_parallel_size
    if stages > 1 and model.target is None and model.config.truthy("tie_word_embeddings"):
        raise Refused(
            f"--pipeline-parallel-size {stages}: vLLM cannot split {model.architecture} with tie_word_embeddings true "
            f"({model.config.where}); use 1."
        )
    return uniform_gqa(model, _WHY, num_kv_heads=model.config.integer("num_key_value_heads"))
