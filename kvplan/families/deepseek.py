"""DeepSeek-V2/V3/R1, Kimi-K2 and GLM-4.7-Flash: multi-head latent attention in every layer.

vLLM: model_executor/models/deepseek_v2.py (DeepseekV2MLAAttention), glm4_moe_lite.py, kimi_k25.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import decoder_names, mla, num_layers, require
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiK25ForConditionalGeneration",
)

_WHY = ("kv_lora_rank, qk_rope_head_dim", "model_executor/models/deepseek_v2.py, DeepseekV2MLAAttention")


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "KimiK25ForConditionalGeneration")


def layers(model: Model) -> list[Layer]:
    if "index_topk" in model.config:  # even null: these classes then build an indexer in every layer
        raise Refused(
            f"{model.config.where}: index_topk is set, and kvplan plans {model.architecture} without an indexer only; "
            "leave it out."
        )
    if model.architecture == "Glm4MoeLiteForCausalLM":
        require(model.config, "first_k_dense_replace")
    prefix = "language_model.model" if model.architecture.endswith("ForConditionalGeneration") else "model"
    return mla(model, decoder_names(prefix, num_layers(model.config)), _WHY)
